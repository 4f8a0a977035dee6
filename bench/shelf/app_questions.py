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
"""  # noqa: E501 - one question a line

_KEPT_ASIDE = """
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
"""


def _read(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    pairs = (line.split(" = ") for line in text.strip().splitlines())
    return tuple((asked, tuple(answers.split(", "))) for asked, answers in pairs)


APP_QUESTIONS = _read(_ASKED)
KEPT_ASIDE = _read(_KEPT_ASIDE)
