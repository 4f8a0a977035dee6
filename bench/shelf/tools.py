"""The tools of the shelf: a name, a description, parameters with their words, tags."""

from __future__ import annotations

from typing import Any

from toolcrib.definition import ToolDefinition

_ROWS = """
read_file | Return the text of a file. | path: where the file is; encoding: how its bytes are to be read
write_file | Put text into a file, replacing what was there. | path: where the file is; content: the new text
append_to_file | Add lines at the end of a file. | path: where the file is; lines: what to add
delete_file | Erase a file for good. There is no way back. | path: which file
copy_file | Duplicate a file under another path. | source: the original; target: where the copy goes
move_file | Give a file another place or another name. | source: where it is; target: where it shall be
list_directory | Show what a folder contains. | path: the folder; recursive: look below as well
create_directory | Make a folder, with those above it. | path: the folder
compress_folder | Pack a folder into one zip archive. | path: the folder; target: name of the archive
extract_archive | Unpack a zip or tar archive. | path: the archive; target: where its content goes
get_file_info | Size, owner and dates of a file. | path: which file
find_in_files | Look for a pattern in all files below a folder. | pattern: regular expression; folder: where to look
git_commit | Record the staged changes with a message. | message: what was done and why
git_diff | Compare two revisions line by line. | base: older revision; head: newer revision
git_create_branch | Start a branch at a revision. | name: of the branch; start: the revision
git_log | The history of a branch, newest first. | branch: which one; limit: how many entries
create_pull_request | Propose a branch for merging and ask for review. | title: in a line; head: branch; reviewers: who should look
merge_pull_request | Merge an approved pull request into its base. | number: of the pull request; method: merge, squash or rebase
list_pull_requests | Pull requests of a repository by state. | repository: owner and name; state: open, closed or all
create_issue | Report a bug or a wish in the tracker. | title: in a line; body: details; labels: to file it under
close_issue | Mark an issue as solved. | number: of the issue; reason: why
search_issues | Find issues by words, label or author. | query: what to look for; label: only those
fork_repository | Make a repository of your own from somebody else's. | repository: owner and name
create_release | Publish a version with notes and files. | tag: version tag; notes: what is new
run_workflow | Start a continuous integration pipeline. | workflow: its file; ref: branch or tag
send_email | Write to somebody by electronic mail. | to: addresses; subject: in a line; body: the letter
reply_to_email | Answer a message in its thread. | message_id: which one; body: the answer
search_inbox | Look through received mail. | query: words; sender: who wrote; since: not older than
archive_email | Take a message out of the inbox without deleting it. | message_id: which one
list_unread_emails | Mail that nobody has opened yet. | limit: how many
create_calendar_event | Put a meeting into the calendar and invite people. | title: what; start: when; attendees: who
cancel_calendar_event | Call a meeting off and tell those invited. | event_id: which one; note: why
find_free_slot | A time when everybody invited has nothing else. | attendees: who; duration_minutes: how long
list_upcoming_events | What is planned in the next days. | days: how far to look
send_slack_message | Post something in a channel. | channel: where; text: what
list_slack_channels | Channels that the workspace has. | archived: with those that are closed
upload_slack_attachment | Share a picture or document in a channel. | channel: where; file: what
run_sql_query | Execute a SQL statement against the warehouse and return rows. | sql: the statement; limit: rows at most
list_tables | The tables of a database schema. | schema: which one
describe_table | Columns and types of a table. | table: its name
backup_database | Save a database to a dump that can be restored. | database: which one; target: bucket for the dump
restore_database | Bring a database back from a dump. | dump: which one; database: where to
create_index | Speed up look-ups on some columns. | table: its name; columns: which
migrate_schema | Bring tables to the newest version of the schema. | target: version; dry_run: only show
start_instance | Boot a virtual machine. | instance_id: which one
stop_instance | Shut a virtual machine down. | instance_id: which one; force: without waiting
resize_instance | Give a virtual machine more or less memory and cores. | instance_id: which one; size: the new type
list_instances | Virtual machines of a project with their state. | project: which one; region: where
create_bucket | Make a place to store objects. | name: of the bucket; region: where
upload_object | Put a local file into a bucket. | bucket: where; key: its name there; path: the local file
download_object | Get an object out of a bucket. | bucket: where; key: which; path: where to save it
generate_presigned_url | A link to an object that works for a while without an account. | key: which; expires_s: for how long
deploy_service | Roll a container image out to the cluster. | service: its name; image: with tag; replicas: how many
rollback_deployment | Return a service to the version before. | service: its name
scale_deployment | Change how many copies of a service run. | service: its name; replicas: how many
get_pod_logs | What a container has printed. | pod: which one; lines: how many from the end
restart_pod | Replace a container that hangs with a fresh one. | pod: which one
get_metrics | Measured values of a service over time. | metric: its name; since: from when
create_alert | Be told when a value crosses a limit. | metric: its name; threshold: the limit; channel: whom to tell
silence_alert | Keep an alarm quiet during maintenance. | alert_id: which one; minutes: for how long
query_traces | Find slow requests across services. | service: its name; min_duration_ms: only slower ones
create_customer | Open a record for somebody who buys from us. | name: of the person or firm; email: address
update_customer | Change what we know about a buyer. | customer_id: which one; fields: new values
find_customer | Look a buyer up by name, phone or address. | query: words
merge_customers | Make one record out of two about the same person. | keep: the one that stays; drop: the other
create_lead | Note somebody who may become a customer. | name: who; source: how we met
log_call | Write down a conversation on the phone. | customer_id: with whom; notes: what was said
create_order | Take an order for goods. | customer_id: for whom; items: what and how many
cancel_order | Withdraw an order before it ships. | order_id: which one; reason: why
track_shipment | Where a parcel is now. | tracking_number: on the label
issue_refund | Pay money back for an order. | order_id: which one; amount: how much
check_stock | How many pieces of an article are left. | sku: article number; warehouse: where
update_price | Set what an article costs. | sku: article number; price: the new one; currency: in which money
create_discount_code | A voucher that lowers the price. | code: what buyers type; percent: how much; expires: until when
create_invoice | Bill a customer. | customer_id: whom; items: lines with amounts; due_days: time to pay
send_payment_reminder | Ask for money that is overdue. | invoice_id: which one
charge_card | Collect a payment from a credit card. | card_token: which card; amount: how much
list_transactions | Movements of a bank account. | account: which one; since: from when
transfer_money | Send money from one account to another. | from_account: whose; to_account: whose; amount: how much
convert_currency | What an amount is worth in other money. | amount: how much; source: from; target: to
get_stock_quote | The price of a share now. | symbol: ticker; exchange: where it trades
calculate_loan | Monthly instalments for a credit. | principal: how much; rate: yearly interest; months: how long
file_expense | Hand in a receipt to be reimbursed. | amount: how much; category: what for; receipt: a picture
get_weather | Temperature, wind and rain at a place. | city: where; units: metric or imperial
get_forecast | The weather of the coming days. | city: where; days: how many
air_quality | Dust and gases in the air at a place. | city: where
geocode_address | Coordinates of a street address. | address: as on a letter
get_directions | The way from one place to another. | origin: from; destination: to; mode: walking, cycling, driving or transit
find_nearby_places | Restaurants, shops and the like around a point. | latitude: of the point; longitude: of the point; kind: what
search_flights | Planes from one airport to another. | origin: airport; destination: airport; date: when
book_hotel | Reserve a room. | city: where; check_in: first night; nights: how many; guests: how many
rent_car | Reserve a vehicle. | city: where; from_date: first day; days: how many
translate_text | Put a text into another language. | text: what; target_language: into which
detect_language | Which language a text is in. | text: what
summarize_text | Say the same in fewer words. | text: what; sentences: how many
extract_keywords | The most telling words of a text. | text: what; count: how many
analyze_sentiment | Whether a text sounds glad or angry. | text: what
check_grammar | Mistakes in spelling and style. | text: what; language: its language
generate_image | Paint a picture from a description. | prompt: what to show; size: in pixels
resize_image | Make a picture smaller or larger. | path: the picture; width: in pixels; height: in pixels
remove_background | Cut out what a photo shows. | path: the photo
transcribe_audio | Turn speech into text. | path: a recording; language: what is spoken
text_to_speech | Read a text aloud. | text: what; voice: whose
cut_video | Keep a part of a film. | path: the film; start_s: from; end_s: to
play_song | Let a piece of music sound in a room. | title: of the piece; room: where
create_playlist | Collect pieces of music under a name. | name: of the list; songs: which
set_thermostat | Choose how warm a room shall be. | room: where; degrees: Celsius
turn_on_light | Switch a lamp on. | room: where; brightness: in percent
lock_door | Bolt a door from afar. | door: which one
start_vacuum | Have the robot clean the floor. | rooms: where
add_employee | Enter a new colleague in the personnel system. | name: who; role: what for; start: first day
request_vacation | Ask for days off. | from_date: first day; to_date: last day
approve_vacation | Say yes to somebody's days off. | request_id: which one
run_payroll | Pay the salaries of a month. | month: which one
schedule_interview | Arrange a talk with an applicant. | candidate: who; interviewers: who asks; time: when
create_task | Note something to be done. | title: what; due: until when; assignee: by whom
complete_task | Tick something off. | task_id: which one
assign_task | Give work to somebody. | task_id: which one; assignee: to whom
create_spreadsheet | Start a table of rows and columns. | title: of the sheet; columns: headings
append_rows | Add rows to a spreadsheet. | sheet_id: which one; rows: values
export_pdf | Save a document in a form for print. | document_id: which one
merge_pdfs | One PDF out of several. | paths: in order
fill_form | Put values into the fields of a PDF. | path: the form; values: by field
ocr_document | Read the letters in a scanned page. | path: the scan
fetch_url | The content of a web page as text. | url: its address
take_screenshot | A picture of a web page. | url: its address; full_page: down to its end
web_search | Ask a search engine. | query: words; count: how many results
shorten_url | A short link that leads to a long one. | url: the long one
post_tweet | Publish a short message for followers. | text: what
schedule_post | Publish on social media later. | text: what; time: when; network: where
get_news | Headlines of the day about a topic. | topic: what about; country: where
rotate_secret | Replace a password or key that is stored. | name: of the secret
create_user | Open an account for somebody. | username: to sign in with; role: what they may do
disable_user | Lock an account without losing its data. | username: whose
reset_password | Let somebody choose a new password. | username: whose
grant_permission | Allow an account to do something. | username: whose; permission: what
list_audit_events | Who did what and when. | since: from when; actor: who
scan_vulnerabilities | Known holes in the packages of a project. | path: the project
block_ip | Refuse requests from an address. | ip: the address; minutes: for how long
solve_equation | Values that make a formula true. | equation: with one unknown
convert_units | Metres in feet, grams in ounces and so on. | value: how much; source: from; target: to
plot_chart | Draw values as lines or bars. | values: numbers; kind: line, bar or pie
roll_dice | Chance between one and a number of sides. | sides: how many; times: how often
find_recipe | Dishes that can be cooked from what is there. | ingredients: what is there; diet: what to leave out
log_workout | Note training and how hard it was. | activity: what; minutes: how long
track_calories | Add up what was eaten. | meal: what; amount_g: how much
book_appointment | A time with a doctor. | doctor: with whom; reason: why; date: when
create_flashcards | Cards to learn words with. | topic: what about; count: how many
grade_quiz | Points for the answers of a pupil. | answers: by question
"""  # noqa: E501 - one tool per line

_TAGGED = {
    "run_workflow": ("ci", "devops"),
    "deploy_service": ("kubernetes", "devops"),
    "get_pod_logs": ("kubernetes",),
    "restart_pod": ("kubernetes",),
    "send_slack_message": ("chat",),
    "issue_refund": ("payments",),
    "charge_card": ("payments",),
    "set_thermostat": ("home",),
    "turn_on_light": ("home",),
    "transcribe_audio": ("speech",),
}


def _definition(row: str) -> ToolDefinition:
    name, description, parameters = (part.strip() for part in row.split("|"))
    properties: dict[str, Any] = {}
    for parameter in parameters.split(";"):
        key, _, words = parameter.partition(":")
        properties[key.strip()] = {"type": "string", "description": words.strip()}
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return ToolDefinition(name, description, schema, tags=_TAGGED.get(name, ()))


SHELF = tuple(_definition(row) for row in _ROWS.strip().splitlines())
