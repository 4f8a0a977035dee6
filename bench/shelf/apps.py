"""Some 6,000 tools as they come from the interfaces of eighty applications, for `app_questions`.

Always the same ones. They are awkward as real ones are: an application says its name only in a prefix, its
neighbours have tools for the same things, and the tools of one thing differ in nothing but the verb. Every
application has a dialect: `slack_chat_post_message`, `gmail_drafts_insert`, `notion_archive_a_page`.
"""

from __future__ import annotations

from collections.abc import Iterator

from toolcrib.definition import ToolDefinition

_APPS = """
slack | grouped | chat
discord | plain | chat
microsoft_teams | grouped | chat meetings
telegram | plain | chat
github | plain | code board
gitlab | nouns | code
bitbucket | plain | code
azure_devops | grouped | board
jira | nouns | board automation
linear | nouns | board
asana | verbose | board
trello | adding | board
clickup | verbose | board
monday | adding | board
todoist | adding | board
basecamp | grouped | board pages
wrike | plain | board
gmail | google | mail
outlook | grouped | mail events
front | plain | mail
sendgrid | plain | marketing
mailgun | verbose | marketing
google_calendar | google | events
calendly | plain | events
google_drive | google | files
dropbox | nouns | files workspace
box | plain | files
onedrive | plain | files
sharepoint | grouped | files
notion | verbose | pages sheets
confluence | plain | pages workspace
coda | adding | pages sheets
google_docs | google | pages
google_sheets | google | sheets
airtable | plain | sheets
excel | grouped | sheets
smartsheet | adding | sheets
google_contacts | google | contacts
hubspot | verbose | crm contacts
salesforce | nouns | crm automation
pipedrive | adding | crm
zoho_crm | plain | crm
attio | plain | crm
apollo | grouped | crm
zendesk | plain | support
freshdesk | verbose | support
intercom | plain | support
helpscout | nouns | support
gorgias | adding | support
stripe | plain | payments
paypal | grouped | payments
square | verbose | payments
chargebee | nouns | payments
shopify | plain | shop
woocommerce | adding | shop
bigcommerce | verbose | shop
mailchimp | adding | marketing
klaviyo | plain | marketing
quickbooks | nouns | accounting
xero | plain | accounting
freshbooks | adding | accounting
bamboohr | adding | people
greenhouse | plain | people
gusto | verbose | people
typeform | plain | forms
surveymonkey | grouped | forms
zoom | plain | meetings
webex | nouns | meetings
twitter | plain | community
linkedin | verbose | community
reddit | adding | community
youtube | google | community
datadog | plain | monitoring
sentry | verbose | monitoring
pagerduty | nouns | monitoring
vercel | plain | hosting
netlify | nouns | hosting
cloudflare | plain | hosting
spotify | plain | music
figma | verbose | design
miro | adding | design
mixpanel | grouped | analytics
posthog | verbose | analytics
"""

# How an application names what it does with a thing: created, got, listed, changed, removed, searched.
_DIALECTS = {
    "plain": "{app}_{verb}_{noun}; create; get; list; update; delete; search",
    "nouns": "{app}_{group}_{verb}; create; get; list; update; delete; search",
    "grouped": "{app}_{kind}_{verb}_{noun}; post; get; list; update; delete; search",
    "verbose": "{app}_{verb}_{noun}; create_a; retrieve_a; retrieve_all; update_a; archive_a; query",
    "adding": "{app}_{verb}_{noun}; add; fetch; get_all; edit; remove; find",
    "google": "{app}_{group}_{verb}; insert; get; list; patch; delete; query",
}

_SENTENCES = {
    "create": (
        "Creates a new {noun}{inside}.; Adds {a} {noun}{inside} and returns it.; Inserts {a} {noun}{inside}."
    ),
    "post": "Posts {a} {noun}{inside}.",
    "get": (
        "Returns the details of {a} {noun}.; "
        "Retrieves {a} {noun} by its ID.; "
        "Gets information about {a} {noun}."
    ),
    "list": (
        "Returns a list of {nouns}{inside}.; "
        "Retrieves all {nouns}{inside}, page by page.; "
        "Lists {nouns}{inside}."
    ),
    "update": (
        "Updates {a} {noun}.; "
        "Modifies the properties of an existing {noun}.; "
        "Changes the attributes of {a} {noun}."
    ),
    "delete": "Deletes {a} {noun}.; Permanently removes {a} {noun}{inside}.; Removes {a} {noun} by its ID.",
    "search": "Searches for {nouns} that match a query.; Finds {nouns} by the given filter expression.",
}
_LATER = (
    "Requires the corresponding OAuth scope.",
    "The response contains the object as it is after the request.",
    "Results are paginated; pass the cursor of the previous page to get the next one.",
    "Rate limited per workspace.",
    "Returns 404 if the ID is unknown or the caller has no access.",
    "Only fields that are set in the request are used.",
)

# A line for each thing: the noun, what it is in, and what can be done with it (c, g, l, u, d, s), then what
# else an interface offers, by its name and in its words.
_KINDS = {
    "chat": """
        message < channel: cgluds
        scheduled_message < channel: ld
        channel < workspace: cgluds
        channel_member < channel: cld
        direct_message < conversation: cl
        thread_reply < thread: cgl
        reaction < message: cld
        pinned_message < channel: cld
        user_status < profile: gu
        user_group < workspace: cglud
        bookmark < channel: clud
        reminder < workspace: cgld
        emoji < workspace: cld
        file < channel: cgld
        schedule message = Schedules a message to be sent to a channel at a later time.
        mark channel_read = Moves the read cursor in a channel.
        archive channel = Archives a conversation.
        set channel_topic = Sets the topic of a channel.
        invite users_to_channel = Invites users to a channel.
        leave channel = Leaves a conversation.
        snooze notifications = Turns on do-not-disturb mode for the current user.
    """,
    "community": """
        post < profile: cgluds
        comment < post: cglud
        follower < profile: lg
        like < post: cld
        playlist < profile: cglud
        direct_message < conversation: cgl
        video < profile: glud
        subscriber < profile: lg
        list_member < list: cld
        trend < region: l
        caption < video: cglud
        ban < community: cld
        follow user = Follows a profile on behalf of the authenticated user.
        unfollow user = Ends following a profile.
        repost post = Shares the post of somebody else with one's own followers.
        hide reply = Hides a reply to a post.
        upload media = Uploads an image or a video in chunks.
        report post = Reports content to the moderators.
        get profile_insights = Returns impressions, reach and engagement of a profile.
    """,
    "workspace": """
        user < workspace: cglud
        team < organization: cglud
        team_member < team: clud
        webhook < workspace: cglud
        role < workspace: cglud
        audit_log < organization: lg
        access_token < account: cld
        invitation < workspace: cld
        permission < role: glu
        custom_field < workspace: cglud
        deactivate user = Suspends the account of a member without losing its data.
        rotate webhook_secret = Replaces the signing secret of a webhook.
        transfer ownership = Transfers the ownership of a workspace.
    """,
    "code": """
        repository < organization: cgluds
        branch < repository: cgld
        branch_protection < repository: gud
        commit < branch: gls
        commit_comment < commit: cglud
        pull_request < repository: cglu
        pull_request_review < pull request: cglud
        review_comment < pull request: cglud
        release < repository: cglud
        release_asset < release: glud
        tag < repository: cgld
        workflow_run < workflow: gld
        deployment < environment: cgld
        deploy_key < repository: cgld
        environment_secret < environment: lud
        milestone < repository: cglud
        gist < account: cglud
        file_contents < repository: gud
        collaborator < repository: lud
        code_scanning_alert < repository: glu
        merge pull_request = Merges a pull request into its base branch.
        request reviewers = Requests reviews for a pull request from users and teams.
        compare commits = Compares two commits against each other.
        rerun failed_jobs = Re-runs all failed jobs of a workflow run.
        cancel workflow_run = Cancels a workflow run that is in progress.
        dispatch workflow = Triggers a workflow manually.
        star repository = Stars a repository for the authenticated account.
        fork repository = Creates a fork for the authenticated account.
        lock conversation = Locks the conversation of a thread.
        download archive = Downloads the source code as a compressed archive.
    """,
    "board": """
        issue < project: cgluds
        issue_comment < issue: cglud
        issue_link < issue: cgd
        issue_type < project: cglud
        attachment < issue: cgld
        worklog < issue: cglud
        watcher < issue: cld
        label < project: cglud
        project < workspace: cgluds
        sprint < board: cglud
        board < project: cgld
        checklist_item < issue: cud
        status < workflow: cglud
        dashboard < workspace: cglud
        filter < workspace: cglud
        component < project: cglud
        time_entry < issue: cglud
        assign issue = Sets the assignee of an issue.
        transition issue = Performs a transition of an issue to another status.
        move issues_to_sprint = Moves issues to a sprint.
        clone project = Duplicates a project with its settings.
        start sprint = Starts a sprint that has been planned.
        get burndown = Returns the remaining effort of a sprint for each day.
    """,
    "automation": """
        automation_rule < workspace: cglud
        trigger < automation rule: cld
        execution < automation rule: gl
        template < workspace: cglud
        bulk_job < workspace: cgl
        schema < workspace: gl
        enable automation_rule = Turns an automation rule on.
        disable automation_rule = Turns an automation rule off.
        abort bulk_job = Aborts a bulk job.
        run saved_report = Runs a saved report and returns its rows.
    """,
    "mail": """
        message < mailbox: gld
        draft < mailbox: cglud
        thread < mailbox: gld
        label < mailbox: cglud
        attachment < message: gl
        filter < mailbox: cgld
        forwarding_address < settings: cgld
        delegate < settings: cgld
        signature < settings: cglu
        mail_folder < mailbox: cglud
        message_rule < mailbox: cglud
        focused_override < mailbox: cld
        send message = Sends the specified message to the recipients in its To, Cc and Bcc headers.
        send draft = Sends an existing draft to its recipients.
        reply message = Replies to the sender of a message.
        forward message = Forwards a message to other recipients.
        trash message = Moves a message to the trash.
        untrash message = Takes a message out of the trash.
        modify message_labels = Changes the labels on a message.
        import message = Imports a message into the mailbox, with scanning.
        batch_delete messages = Deletes many messages by ID.
        report spam = Marks a message as junk.
        update vacation_settings = Updates the automatic reply for an absence.
        get vacation_settings = Returns the automatic reply for an absence.
        stop mailbox_watch = Stops push notifications for a mailbox.
    """,
    "contacts": """
        contact < account: cgluds
        contact_group < account: cglud
        contact_note < contact: cgld
        contact_tag < contact: cld
        contact_photo < contact: gud
        contact_field < account: cglud
        segment < account: cglud
        company < account: cgluds
        merge contacts = Merges two contacts into one.
        import contacts = Imports contacts from a CSV file.
        export contacts = Starts an export of contacts.
        block contact = Blocks a contact.
        unsubscribe contact = Unsubscribes a contact from all mailings.
    """,
    "marketing": """
        campaign < account: cgluds
        campaign_template < account: cglud
        audience < account: cglud
        audience_member < audience: cgluds
        merge_field < audience: cglud
        sender_domain < account: cgld
        suppression < account: cgld
        bounce < account: gld
        open_event < campaign: gl
        click_report < campaign: gl
        landing_page < account: cglud
        send_time_test < campaign: cgl
        send campaign = Sends a campaign immediately to its audience.
        schedule campaign = Schedules the delivery of a campaign.
        pause campaign = Pauses an automated campaign.
        send test_email = Sends a test of a campaign to given addresses.
        send transactional_email = Delivers a single transactional email.
        verify sender_domain = Verifies the DNS records of a domain.
        replicate campaign = Makes a copy of a campaign.
    """,
    "events": """
        event < calendar: cgluds
        calendar < account: cglud
        calendar_share < calendar: cglud
        attendee < event: cld
        event_type < account: cglud
        availability_schedule < account: cglud
        booking < event type: cgl
        booking_link < event type: cld
        event_instance < event: l
        event_reminder < event: cud
        no_show < event: cd
        room < building: gl
        cancel booking = Cancels a scheduled booking and notifies the invitees.
        reschedule booking = Changes the time of a scheduled booking.
        query free_busy = Returns the intervals in which calendars are busy.
        quick_add event = Creates an event from a line of text.
        move event = Moves an event to another calendar.
        accept event = Accepts the invitation to an event.
        decline event = Declines the invitation to an event.
    """,
    "files": """
        file < folder: cgluds
        folder < drive: cglud
        file_permission < file: cglud
        file_comment < file: cglud
        file_version < file: gld
        shared_link < file: cglud
        drive < account: cglud
        file_request < folder: cglud
        upload_session < folder: cgd
        webhook_channel < drive: cd
        metadata_template < account: cglud
        collaboration < folder: cgud
        upload file = Uploads the content of a file.
        download file = Downloads the content of a file.
        copy file = Creates a copy of a file in a folder.
        move file = Changes the parent of a file.
        restore file = Restores a file from the trash.
        export file = Exports a document to another media type.
        lock file = Locks a file against changes.
        empty trash = Permanently deletes everything in the trash.
        get storage_quota = Returns the space that is used and available.
    """,
    "pages": """
        page < space: cgluds
        page_comment < page: cglud
        block < page: cglud
        space < workspace: cglud
        page_attachment < page: cgld
        page_label < page: cld
        page_version < page: gl
        page_property < page: cglud
        page_restriction < page: cgld
        whiteboard < space: cgd
        table_of_contents < page: g
        append block_children = Appends child blocks to a parent block.
        export page = Exports a page to PDF.
        move page = Moves a page below another parent.
        copy page = Copies a page with its descendants.
        publish page = Publishes a draft page.
        watch page = Subscribes the caller to changes of a page.
        replace text = Replaces all instances of a text with another.
    """,
    "sheets": """
        row < table: cgluds
        column < table: cglud
        table < base: cglud
        view < table: cgld
        cell_comment < row: cglud
        sheet_tab < spreadsheet: cglud
        named_range < spreadsheet: cglud
        chart < spreadsheet: cglud
        formula < table: gu
        cell_format < table: gud
        pivot_table < spreadsheet: cgd
        base < workspace: cgl
        append values = Appends values after the last row of a range.
        clear values = Clears the values of a range.
        batch_get values = Returns the values of several ranges.
        sort range = Sorts the data of a range.
        copy sheet_tab = Copies a tab to another spreadsheet.
        protect range = Prevents others from editing a range.
        upsert rows = Creates rows or updates them where a key matches.
    """,
    "crm": """
        deal < pipeline: cgluds
        company < account: cgluds
        person < company: cgluds
        lead < account: cgluds
        pipeline < account: cglud
        stage < pipeline: cglud
        activity < deal: cglud
        note < deal: cglud
        product < deal: cgluds
        quote < deal: cglud
        association < object: cld
        property < object: cglud
        call_log < person: cgld
        email_sequence < account: cgl
        owner < account: gl
        goal < account: cglud
        convert lead = Converts a qualified lead to an opportunity.
        merge companies = Merges two company records.
        add person_to_sequence = Enrolls a person in a sequence.
        move deal_to_stage = Changes the stage of a deal in its pipeline.
        enrich person = Completes the record of a person from public data.
        forecast revenue = Returns the expected revenue by month.
    """,
    "support": """
        ticket < queue: cgluds
        ticket_comment < ticket: cgl
        ticket_field < account: cglud
        ticket_form < account: cglud
        end_user < organization: cgluds
        organization < account: cgluds
        macro < account: cglud
        view < account: cglud
        satisfaction_rating < ticket: cgl
        sla_policy < account: cglud
        help_center_article < section: cgluds
        section < help center: cglud
        agent_group < account: cglud
        conversation < inbox: cgls
        conversation_tag < conversation: cld
        canned_response < account: cglud
        reply conversation = Replies to a conversation as an agent or on behalf of a customer.
        assign conversation = Assigns a conversation to an agent or a team.
        close conversation = Closes a conversation.
        snooze conversation = Snoozes a conversation until a given time.
        merge tickets = Merges tickets into a target ticket.
        mark ticket_spam = Marks a ticket as spam and suspends its requester.
        recover ticket = Recovers a suspended ticket.
    """,
    "payments": """
        customer < account: cgluds
        payment_intent < customer: cgluds
        payment_method < customer: cglud
        refund < charge: cglu
        subscription < customer: cgluds
        subscription_item < subscription: cglud
        invoice < customer: cgluds
        invoice_item < invoice: cglud
        price < product: cglu
        coupon < account: cglud
        promotion_code < coupon: cglu
        dispute < charge: glu
        payout < account: cgl
        balance_transaction < account: gl
        checkout_session < account: cgl
        payment_link < account: cglu
        tax_rate < account: cglu
        credit_note < invoice: cglu
        capture payment_intent = Captures the funds of an authorized payment.
        cancel payment_intent = Cancels a payment that has not been captured.
        cancel subscription = Cancels the subscription of a customer, immediately or at period end.
        resume subscription = Resumes a paused subscription.
        void invoice = Voids a finalized invoice.
        send invoice = Emails an invoice to the customer.
        pay invoice = Attempts payment of an open invoice.
        get balance = Returns the funds of the account by currency.
        accept dispute = Closes a dispute as lost.
    """,
    "shop": """
        product < catalog: cgluds
        product_variant < product: cglud
        product_image < product: cglud
        order < store: cgluds
        order_refund < order: cgl
        draft_order < store: cglud
        fulfillment < order: cglu
        inventory_level < location: lu
        collection < catalog: cglud
        discount_code < store: cglud
        gift_card < store: cglu
        abandoned_cart < store: gl
        shopper < store: cgluds
        shopper_address < shopper: cglud
        shipping_zone < store: cglud
        location < store: gl
        store_review < product: cgld
        cancel order = Cancels an order and restocks its items.
        close order = Closes an order.
        adjust inventory_level = Adjusts the available quantity of an item at a location.
        complete draft_order = Turns a draft into an order.
        calculate shipping_rates = Returns the shipping rates for a basket.
    """,
    "accounting": """
        invoice < customer: cgluds
        bill < vendor: cgluds
        vendor < company: cgluds
        customer < company: cgluds
        expense < account: cgluds
        estimate < customer: cglud
        bank_transaction < account: cglud
        journal_entry < ledger: cglud
        account < ledger: cglu
        tax_code < company: gl
        purchase_order < vendor: cglud
        credit_memo < customer: cglud
        time_activity < employee: cglud
        payment < invoice: cgld
        item < company: cglud
        email invoice = Sends an invoice to the address of its customer.
        void payment = Voids a payment.
        get profit_and_loss_report = Returns income and expenses for a period.
        get balance_sheet_report = Returns assets, liabilities and equity at a date.
        get aged_receivables_report = Returns outstanding amounts by customer and age.
        reconcile bank_transaction = Matches a transaction with an entry of the ledger.
    """,
    "people": """
        employee < company: cglus
        time_off_request < employee: cglu
        time_off_policy < company: gl
        job < company: cglu
        job_posting < job: cglu
        candidate < job: cgluds
        application < candidate: cgld
        interview < application: cglud
        scorecard < interview: gl
        offer < application: cglu
        department < company: cglu
        employee_document < employee: cgld
        benefit < company: cglud
        payroll_run < company: gl
        contractor < company: cglu
        compensation < employee: cglu
        approve time_off_request = Changes the status of an absence to approved.
        reject application = Rejects an application with a reason.
        advance application = Moves an application to the next stage.
        terminate employee = Ends the employment of a person at a date.
        get who_is_out = Returns the absences of today and the coming days.
        submit payroll_run = Submits a payroll for processing.
    """,
    "forms": """
        form < workspace: cglud
        form_response < form: gld
        form_question < form: cglud
        theme < account: cglud
        image < account: cgld
        submission < form: cglud
        collector < form: cglud
        form_report < form: cgld
        form_folder < account: cglud
        clone form = Makes a copy of a form with its questions.
        get insights = Returns visits, completion rate and drop-off of a form.
        close form = Stops a form from accepting responses.
    """,
    "meetings": """
        meeting < account: cglud
        meeting_registrant < meeting: cgld
        meeting_participant < meeting: gl
        recording < meeting: gld
        recording_transcript < recording: gd
        webinar < account: cglud
        webinar_panelist < webinar: cld
        meeting_poll < meeting: cglud
        phone_call < account: gl
        meeting_template < account: cl
        breakout_room < meeting: cgud
        end meeting = Ends a meeting that is in progress.
        get meeting_summary = Returns the notes that were generated for a meeting.
        approve registrant = Approves a pending registrant.
        share recording = Changes who may watch a recording.
    """,
    "monitoring": """
        monitor < organization: cgluds
        alert_rule < project: cglud
        incident < service: cgluds
        incident_note < incident: cl
        event < project: cgls
        dashboard < organization: cglud
        metric < organization: cgls
        log_pipeline < organization: cglud
        on_call_schedule < team: cglud
        escalation_policy < team: cglud
        maintenance_window < service: cglud
        error_group < project: glud
        downtime < monitor: cglud
        synthetic_test < organization: cglud
        release < project: cgld
        service < organization: cglud
        annotation < dashboard: cglud
        data_source < organization: cglud
        mute monitor = Stops notifications of a monitor for some time.
        acknowledge incident = Acknowledges an incident on behalf of a responder.
        resolve incident = Resolves an incident.
        query timeseries = Evaluates a metric expression over a period.
        list on_calls = Returns who is on call for each schedule.
        search logs = Returns log events that match a query.
    """,
    "hosting": """
        deployment < project: cgld
        project < team: cglud
        domain < project: cgld
        dns_record < zone: cglud
        environment_variable < project: cglud
        certificate < domain: cgld
        build_hook < project: cglud
        function < project: cglud
        log_drain < project: cglud
        firewall_rule < zone: cglud
        add_on < application: cglud
        edge_config < team: cglud
        storage_bucket < account: cgld
        redirect_rule < zone: cglud
        cron_job < project: cglud
        rollback deployment = Points production back to an earlier deployment.
        cancel deployment = Cancels a deployment that is being built.
        promote deployment = Promotes a preview deployment to production.
        purge cache = Invalidates cached content of a zone.
        restart dynos = Restarts all processes of an application.
        scale processes = Changes the number and size of processes.
        verify domain = Checks the configuration of a domain.
    """,
    "music": """
        playlist < profile: cglud
        playlist_track < playlist: cld
        saved_album < library: cld
        saved_track < library: cld
        artist < catalog: gls
        album < catalog: gls
        track < catalog: gls
        device < account: l
        episode < show: gls
        audiobook < catalog: gl
        pause playback = Pauses playback on the active device.
        start playback = Starts or resumes playback on a device.
        skip to_next = Skips to the next track of the queue.
        set volume = Sets the volume of a device.
        add to_queue = Adds an item to the end of the playback queue.
        get recommendations = Returns tracks for given seeds.
        follow artist = Follows an artist.
        get currently_playing = Returns the track that is being played.
    """,
    "design": """
        design_file < project: gld
        board < team: cglud
        sticky_note < board: cglud
        shape < board: cglud
        connector < board: cglud
        frame < board: cglud
        board_member < board: clud
        file_comment < design file: cgld
        component < design file: gl
        style < design file: gl
        variable < design file: cgl
        card < board: cglud
        image_item < board: cglud
        dev_resource < design file: cglud
        export image = Renders nodes of a design file as images.
        copy board = Makes a copy of a board.
        share board = Shares a board with members by email.
    """,
    "analytics": """
        event < project: cls
        event_property < project: cglud
        cohort < project: cglud
        funnel < project: gl
        feature_flag < project: cglud
        experiment < project: cglud
        insight < project: cglud
        dashboard < project: cglud
        user_profile < project: gluds
        annotation < project: cglud
        session_recording < project: gld
        survey < project: cglud
        lookup_table < project: cgu
        alias < user profile: cl
        track event = Ingests a batch of events.
        query retention = Returns how many users came back, by period.
        query funnel = Returns the conversion between the steps of a funnel.
        export events = Downloads raw events of a period.
        merge user_profiles = Merges two identities.
        delete user_data = Starts an erasure under privacy law.
    """,
}
_OPERATIONS = {"c": "create", "g": "get", "l": "list", "u": "update", "d": "delete", "s": "search"}


def make_app_tools() -> list[ToolDefinition]:
    """Return the tools of all applications, in the order of the tables."""
    tools: dict[str, ToolDefinition] = {}
    for number, line in enumerate(_APPS.strip().splitlines()):
        app, dialect, kinds = (part.strip() for part in line.split("|"))
        for kind in kinds.split():
            for definition in _tools_of(app, number, dialect, kind):
                tools.setdefault(definition.name, definition)
    return list(tools.values())


def _tools_of(app: str, number: int, dialect: str, kind: str) -> Iterator[ToolDefinition]:
    pattern, *verbs = _DIALECTS[dialect].split("; ")
    words = dict(zip(_OPERATIONS.values(), verbs, strict=True))
    for place, line in enumerate(_KINDS[kind].strip().splitlines()):
        count = number + place
        if "=" in line:
            call, said = (part.strip() for part in line.split("="))
            verb, noun = call.split()
            name = pattern.format(app=app, kind=kind, verb=verb, noun=noun, group=_plural(noun))
            yield _definition(name, said, noun, "", "other", count)
            continue
        thing, done = line.strip().split(": ")
        noun, parent = thing.split(" < ")
        for letter in done:
            operation = _OPERATIONS[letter]
            group = _plural(noun)
            many = group if operation in ("list", "search") else noun
            name = pattern.format(app=app, kind=kind, verb=words[operation], noun=many, group=group)
            said = _sentence(words[operation], operation, noun, parent, count)
            yield _definition(name, said, noun, parent, operation, count)


def _sentence(verb: str, operation: str, noun: str, parent: str, count: int) -> str:
    sentences = _SENTENCES["post" if verb == "post" else operation].split("; ")
    words = noun.replace("_", " ")
    article = "an" if words[0] in "aeiou" else "a"
    preposition = {"create": "to", "post": "to", "list": "of", "delete": "from"}.get(operation, "in")
    inside = f" {preposition} {'an' if parent[0] in 'aeiou' else 'a'} {parent}"
    return sentences[count % len(sentences)].format(
        a=article, noun=words, nouns=_plural(noun).replace("_", " "), inside=inside
    )


def _plural(noun: str) -> str:
    if noun.endswith("s"):
        return noun
    if noun.endswith(("ch", "sh")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeiou" else f"{noun}s"


def _definition(name: str, said: str, noun: str, parent: str, operation: str, count: int) -> ToolDefinition:
    words = noun.replace("_", " ")
    properties = {}
    if operation in ("create", "list") and parent:
        properties[f"{parent.replace(' ', '_')}_id"] = f"The ID of the {parent}."
    if operation in ("get", "update", "delete", "other"):
        properties[f"{noun}_id"] = f"The ID of the {words}."
    if operation in ("create", "update"):
        properties |= {
            "name": f"The name of the {words}.",
            "attributes": f"Further attributes of the {words}, by name.",
            "notify": "Whether users are notified by email.",
        }
    if operation in ("list", "search"):
        properties |= {
            "limit": "The maximum number of items to return.",
            "cursor": "Where the page begins.",
        }
    if operation == "search":
        properties["query"] = "The text or filter to search for."
    schema = {
        "type": "object",
        "properties": {key: {"type": "string", "description": text} for key, text in properties.items()},
    }
    return ToolDefinition(name, f"{said} {_LATER[count % len(_LATER)]}", schema)
