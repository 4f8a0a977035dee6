"""What people ask for, by how they ask, and the tool (or one of the tools) they mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["plain", "form", "other words", "sentence"]


@dataclass(frozen=True, slots=True)
class Question:
    kind: Kind
    text: str
    answers: tuple[str, ...]


_ASKED: dict[Kind, str] = {
    # words that the tool itself uses
    "plain": """
        read file = read_file
        delete file = delete_file
        list directory = list_directory
        create pull request = create_pull_request
        merge pull request = merge_pull_request
        send email = send_email
        calendar event = create_calendar_event, cancel_calendar_event
        slack message = send_slack_message
        sql query = run_sql_query
        describe table = describe_table
        backup database = backup_database
        start instance = start_instance
        create bucket = create_bucket
        deploy service = deploy_service
        pod logs = get_pod_logs
        create alert = create_alert
        find customer = find_customer
        cancel order = cancel_order
        refund = issue_refund
        create invoice = create_invoice
        transfer money = transfer_money
        currency = convert_currency, update_price
        weather = get_weather, get_forecast
        geocode = geocode_address
        flights = search_flights
        hotel = book_hotel
        translate = translate_text
        sentiment = analyze_sentiment
        resize image = resize_image
        thermostat = set_thermostat
        vacation request = request_vacation
        payroll = run_payroll
        screenshot = take_screenshot
        reset password = reset_password
        permission = grant_permission
        block ip = block_ip
        recipe = find_recipe
        kubernetes logs = get_pod_logs
        robot = start_vacuum
        voucher = create_discount_code
        ticker = get_stock_quote
        presigned url = generate_presigned_url
    """,
    # the same words in another form
    "form": """
        deleting files = delete_file
        copying a file = copy_file
        creates pull requests = create_pull_request
        merging pull requests = merge_pull_request
        sending emails = send_email
        replying to emails = reply_to_email
        archived emails = archive_email
        cancelled orders = cancel_order
        invoices = create_invoice
        invoicing = create_invoice
        payments reminder sending = send_payment_reminder
        translation of texts = translate_text
        translator = translate_text
        summarization = summarize_text
        summarising texts = summarize_text
        resizing images = resize_image
        transcription = transcribe_audio
        transcribing = transcribe_audio
        conversion of currencies = convert_currency
        unit conversion = convert_units
        deployment of services = deploy_service
        deploying = deploy_service
        scaling deployments = scale_deployment
        restarting pods = restart_pod
        compressed folders = compress_folder
        extraction of archives = extract_archive
        migration of schemas = migrate_schema
        restoring databases = restore_database
        approving vacations = approve_vacation
        scheduling interviews = schedule_interview
        assigned tasks = assign_task
        completing tasks = complete_task
        silencing alerts = silence_alert
        rotating secrets = rotate_secret
        disabling users = disable_user
        granted permissions = grant_permission
        calculator for loans = calculate_loan
        shortened urls = shorten_url
        grammar checking = check_grammar
        grammar checker = check_grammar
        detection of languages = detect_language
        keyword extraction = extract_keywords
        equations = solve_equation
        plotting charts = plot_chart
        language detection = detect_language
        vulnerability scanner = scan_vulnerabilities
        tracking shipments = track_shipment
        booked hotels = book_hotel
        rolled dice = roll_dice
        generating images = generate_image
    """,
    # words that mean the same
    "other words": """
        remove a file = delete_file
        erase document = delete_file
        show folder = list_directory
        make directory = create_directory
        unzip = extract_archive
        zip folder = compress_folder
        duplicate file = copy_file
        rename file = move_file
        mail somebody = send_email
        new bug = create_issue
        open a ticket = create_issue
        find tickets = search_issues
        meeting = create_calendar_event
        appointment with physician doctor = book_appointment
        shut down machine = stop_instance
        reboot container = restart_pod
        save database = backup_database
        bill a client = create_invoice
        pay back money = issue_refund
        parcel location = track_shipment
        reserve a room = book_hotel
        reserve car = rent_car
        picture smaller = resize_image
        photo background = remove_background
        speech to text = transcribe_audio
        read aloud = text_to_speech
        lamp = turn_on_light
        days off = request_vacation
        todo = create_task
        web page content = fetch_url
        headlines = get_news
        lock account = disable_user
        route = get_directions
        share price = get_stock_quote
        regex search = find_in_files
        modify customer = update_customer
        remove account = disable_user
        alarm = create_alert, silence_alert
        staff salary = run_payroll
        purchase = create_order
        createPullRequest = create_pull_request
        gitlog = git_log
        deletefile = delete_file
    """,
    # as one says it to a person
    "sentence": """
        how do I delete a file? = delete_file
        I want to see what is in this folder = list_directory
        please send an email to my boss = send_email
        what will the weather be like tomorrow = get_forecast, get_weather
        can you put a meeting in my calendar = create_calendar_event
        which customers live in this street = find_customer
        give the customer their money back = issue_refund
        I need to translate this text into French = translate_text
        how much is 100 dollars in euros, currency wise = convert_currency
        restart the container that hangs = restart_pod
        why is this request slow across services = query_traces
        who changed this and when = list_audit_events
        tell me how to get from the station to the museum, walking directions = get_directions
        turn this recording into text = transcribe_audio
        make the picture smaller = resize_image
        somebody forgot their password = reset_password
        let me know when the metric goes over a threshold = create_alert
        is this article still in stock in the warehouse = check_stock
        what can I cook with these ingredients = find_recipe
        go back to the version before of the service = rollback_deployment
        draw a bar chart of these numbers = plot_chart
        find a time when all attendees are free = find_free_slot
        put these rows into the spreadsheet = append_rows
        one pdf out of these pdfs = merge_pdfs
    """,
}

QUESTIONS = tuple(
    Question(kind, text.strip(), tuple(answer.strip() for answer in answers.split(",")))
    for kind, lines in _ASKED.items()
    for line in lines.strip().splitlines()
    for text, _, answers in [line.rpartition("=")]
)
