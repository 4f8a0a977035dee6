"""What people would ask of `apps`, in their own words, and the tool (or the tools) they mean.

The questions of `KEPT_ASIDE` were not looked at while the search was changed, and are there to tell whether
it has learned more than the others.
"""

from __future__ import annotations

_ASKED = """
send a message to a slack channel = slack_chat_post_message
look up people in a slack channel = slack_chat_list_channel_members
what messages are waiting to be sent later in slack = slack_chat_list_scheduled_messages
DM someone on slack = slack_chat_post_direct_message
open a new bug in jira = jira_issues_create
who should work on this jira ticket, I want to assign it = jira_issues_assign
add a comment to a jira issue = jira_issue_comments_create
show me all open tickets in linear = linear_issues_list, linear_issues_search
email somebody from my gmail account = gmail_messages_send
set up an out of office reply in gmail = gmail_vacation_settings_update
throw away a gmail message = gmail_messages_trash, gmail_messages_delete
book a meeting in my google calendar = google_calendar_events_insert, google_calendar_bookings_insert
when are my colleagues free? google calendar = google_calendar_free_busies_query
share a google drive file with a coworker = google_drive_file_permissions_insert, google_drive_shared_links_insert
make a folder in google drive = google_drive_folders_insert
search for a document in dropbox = dropbox_files_search
write a new notion page = notion_create_a_page
get rid of a notion page = notion_archive_a_page
add rows to a google sheet = google_sheets_rows_insert, google_sheets_values_append
find a contact in hubspot by email = hubspot_query_contacts
change the stage of a hubspot deal = hubspot_move_deal_to_stage, hubspot_update_a_deal
give a customer their money back in stripe = stripe_create_refund
stop a customer's stripe subscription = stripe_cancel_subscription
how much money do I have in stripe = stripe_get_balance
update the stock of a product in shopify = shopify_update_inventory_level, shopify_adjust_inventory_level
list shopify orders = shopify_list_orders
answer a customer in intercom = intercom_reply_conversation
file a new support request in zendesk = zendesk_create_ticket
merge a PR on github = github_merge_pull_request
who are the collaborators on my github repo = github_list_collaborators
remove somebody from a mailchimp list = mailchimp_remove_audience_member
see who is on call in pagerduty = pagerduty_on_calls_list
put a song on my spotify playlist = spotify_create_playlist_track
put a thumbs up on somebody's discord message = discord_create_reaction
who is in our slack channel = slack_chat_list_channel_members
telegram: stop notifications for tonight = telegram_snooze_notifications
make a new branch on github = github_create_branch
merge a PR in bitbucket = bitbucket_merge_pull_request
restart the jobs that failed in the gitlab pipeline = gitlab_failed_jobs_rerun
give a jira ticket to a colleague = jira_issues_assign
log hours I worked on a clickup task = clickup_create_a_time_entry
copy a trello project = trello_clone_project
begin the next sprint in linear = linear_sprints_start
write an email in gmail and send it = gmail_messages_send
set my out of office reply in outlook = outlook_mail_update_vacation_settings
throw a gmail message away = gmail_messages_trash, gmail_messages_delete
when is everybody free? google calendar = google_calendar_free_busies_query
rsvp no to an outlook meeting = outlook_events_decline_event
share a dropbox file by link = dropbox_shared_links_create
how much space is left on my onedrive = onedrive_get_storage_quota
bring back a deleted file in box = box_restore_file
save a confluence page as pdf = confluence_export_page
append a row of values to a google sheet = google_sheets_values_append
join duplicate contacts in hubspot = hubspot_merge_contacts
turn a salesforce lead into an opportunity = salesforce_leads_convert
sales we expect next quarter in pipedrive = pipedrive_forecast_revenue
answer a customer's conversation in intercom = intercom_reply_conversation
give a stripe customer his money back = stripe_create_refund
cancel a chargebee subscription = chargebee_subscriptions_cancel
carts that shoppers left in shopify = shopify_list_abandoned_carts
who owes us money in xero = xero_get_aged_receivables_report
approve vacation of an employee in bamboohr = bamboohr_approve_time_off_request
what was said in the zoom recording = zoom_get_recording_transcript
who is on call in pagerduty = pagerduty_on_calls_list
go back to the previous deployment on vercel = vercel_rollback_deployment
which song is playing on spotify = spotify_get_currently_playing
remind me in slack tomorrow = slack_chat_post_reminder
change the topic of a discord channel = discord_set_channel_topic
which pull requests are open on github = github_list_pull_requests
take somebody's access to a gitlab repository away = gitlab_collaborators_delete
what is left to do in this sprint in jira = jira_burndowns_get, jira_sprints_get
attach a file to an asana task = asana_create_a_attachment
comment on a linear issue = linear_issue_comments_create
forward a mail to my boss with outlook = outlook_mail_forward_message
sort incoming gmail into folders with a rule = gmail_message_rules_insert, gmail_filters_insert
push my calendly appointment to another time = calendly_reschedule_booking
see older versions of a dropbox file = dropbox_file_versions_list, dropbox_file_versions_get
lock a document in sharepoint so nobody edits it = sharepoint_files_lock_file
add a paragraph to a notion page = notion_append_block_children, notion_create_a_block
swap a word everywhere in a google doc = google_docs_texts_replace
make a chart in excel = excel_sheets_post_chart
delete a column from an airtable table = airtable_delete_column
block a person in google contacts = google_contacts_contacts_block
move a pipedrive deal to the next stage = pipedrive_move_deal_to_stage
which deals are in hubspot = hubspot_retrieve_all_deals
merge two zendesk tickets = zendesk_merge_tickets
write a help article in freshdesk = freshdesk_create_a_help_center_article
charge the card that was authorized in stripe = stripe_capture_payment_intent
how much money is in my paypal = paypal_payments_get_balance
how many pieces are in stock in shopify = shopify_list_inventory_levels
pause a mailchimp campaign = mailchimp_pause_campaign
did we make a profit last year? quickbooks = quickbooks_profit_and_loss_reports_get
who is away today in gusto = gusto_get_who_is_out
turn down an applicant in greenhouse = greenhouse_reject_application
answers people gave to my typeform = typeform_list_form_responses
unfollow someone on twitter = twitter_unfollow_user
look through datadog logs for errors = datadog_search_logs
clear the cloudflare cache = cloudflare_purge_cache
skip this song on spotify = spotify_skip_to_next
pin a message in slack = slack_chat_post_pinned_message
who reacted to the telegram message = telegram_list_reactions
invite people to a microsoft teams channel = microsoft_teams_chat_invite_users_to_channel
what changed between two commits on github = github_compare_commits
publish a release on gitlab = gitlab_releases_create
stop a running workflow on github = github_cancel_workflow_run
move a jira issue to done = jira_issues_transition
show the labels of my todoist projects = todoist_get_all_labels
delete many gmail messages at once = gmail_messages_batch_delete
mark an outlook mail as spam = outlook_mail_report_spam
cancel a meeting somebody booked on calendly = calendly_cancel_booking
who is invited to the google calendar event = google_calendar_attendees_list
download a file from box = box_download_file
who may open this google drive file = google_drive_file_permissions_list, google_drive_file_permissions_get
empty the trash in onedrive = onedrive_empty_trash
copy a confluence page with its children = confluence_copy_page
protect cells in smartsheet from being edited = smartsheet_protect_range
order the rows of an excel table = excel_sheets_sort_range
import a list of contacts into hubspot = hubspot_import_contacts
write down a call with a customer in salesforce = salesforce_call_logs_create
list the products of an attio deal = attio_list_products
close a conversation in intercom = intercom_close_conversation
how happy are customers in zendesk = zendesk_list_satisfaction_ratings, zendesk_get_satisfaction_rating
send a square invoice = square_send_invoice
make a coupon in stripe = stripe_create_coupon
ship an order in shopify = shopify_create_fulfillment
what does delivery cost in woocommerce = woocommerce_calculate_shipping_rates
take somebody off a klaviyo audience = klaviyo_delete_audience_member
enter an expense in freshbooks = freshbooks_add_expense
hire a new employee in gusto = gusto_create_a_employee
end a webex meeting = webex_meetings_end
silence a datadog monitor for an hour = datadog_mute_monitor
add an environment variable on netlify = netlify_environment_variables_create
post an announcement in a microsoft teams channel = microsoft_teams_chat_post_message
edit a card on trello = trello_edit_issue
delete a branch on gitlab = gitlab_branches_delete
reply to a message in outlook = outlook_mail_reply_message
fetch all deals from pipedrive = pipedrive_get_all_deals
create an invoice for a client in xero = xero_create_invoice
roll back a vercel deployment = vercel_rollback_deployment
show the answers to my typeform = typeform_list_form_responses, typeform_get_form_response
approve vacation in bamboohr = bamboohr_approve_time_off_request
what were the notes of my zoom meeting = zoom_get_meeting_summary
add someone to a figma comment thread = figma_create_a_file_comment
"""  # noqa: E501 - one question a line

_KEPT_ASIDE = """
read the latest messages of a discord channel = discord_list_messages
archive a slack channel we no longer need = slack_chat_archive_channel
ask two people to review my github pull request = github_request_reviewers
what issues does clickup have about login = clickup_query_issues
connect two jira issues = jira_issue_links_create
save a gmail draft = gmail_drafts_insert
say yes to a google calendar invitation = google_calendar_events_accept
upload a picture to dropbox = dropbox_files_upload
who changed this confluence page = confluence_list_page_versions, confluence_get_page_version
find a record in airtable = airtable_search_rows
add a note to a zoho crm deal = zoho_crm_create_note
put a helpscout conversation to sleep until monday = helpscout_conversations_snooze
unpaid invoices in chargebee = chargebee_invoices_list, chargebee_invoices_search
cancel an order in bigcommerce = bigcommerce_cancel_order
send a test of my sendgrid campaign = sendgrid_send_test_email
pay run of this month in gusto = gusto_retrieve_a_payroll_run, gusto_retrieve_all_payroll_runs, gusto_submit_payroll_run
watch a zoom recording again, where is it = zoom_get_recording, zoom_list_recordings
share someone's tweet on twitter = twitter_repost_post
mark a pagerduty incident as fixed = pagerduty_incidents_resolve
point a domain to my vercel project = vercel_create_domain, vercel_verify_domain
make spotify louder = spotify_set_volume
add a sticky note to a miro board = miro_add_sticky_note
"""  # noqa: E501 - one question a line


def _read(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    pairs = (line.split(" = ") for line in text.strip().splitlines())
    return tuple((asked, tuple(answers.split(", "))) for asked, answers in pairs)


APP_QUESTIONS = _read(_ASKED)
KEPT_ASIDE = _read(_KEPT_ASIDE)
