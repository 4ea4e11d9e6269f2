# Sets `on_postgresql`: the arguments of pytest for the tests that `.ci/run` runs on PostgreSQL and Redis.
#
# Every test runs on SQLite, and `.ci/run --all` runs every test on PostgreSQL, too. By day PostgreSQL runs what can
# differ there: each SQL statement of the product at least once (but not each combination of filters), locks, counts,
# constraints, every way of writing, and each page and each operation once.
# shellcheck shell=bash disable=SC2034

# Test files in these folders run unless the lists below leave them out.
searched=(
    tests/handoffs tests/diagnostics tests/accounts tests/policy tests/api
    tests/test_benchmarks.py tests/test_database_faults.py
)

# The tests of these files send no statements, or only statements that tests of other files send, too.
left_out=(
    tests/accounts/test_agent_limits.py
    tests/api/test_agents.py tests/api/test_comments.py tests/api/test_compressed.py tests/api/test_contract.py
    tests/api/test_documentation.py tests/api/test_errors.py tests/api/test_frameworks.py tests/api/test_hook_results.py
    tests/api/test_hooks.py tests/api/test_request_ids.py
    tests/api/test_reviewing.py tests/api/test_traces.py tests/api/test_validate.py tests/api/test_webhooks.py
    tests/diagnostics/test_file_tally.py tests/diagnostics/test_tracing.py
    tests/diagnostics/logs/test_lost_heads.py
    tests/diagnostics/logs/test_reported.py
    tests/handoffs/event_log/test_event_log.py tests/handoffs/event_log/test_own_events.py
    tests/handoffs/hooks/test_events.py tests/handoffs/hooks/test_status.py
    tests/handoffs/test_derived_chains.py tests/handoffs/test_filters.py tests/handoffs/test_formats.py
    tests/handoffs/test_ingest_prepare.py tests/handoffs/test_injection.py tests/handoffs/test_llm_run.py
    tests/handoffs/test_periods.py tests/handoffs/test_reason_beside.py tests/handoffs/test_rechecking_order.py
    tests/handoffs/test_reference_files.py tests/handoffs/test_remediation.py
    tests/handoffs/test_repairing_by_model.py tests/handoffs/test_results.py tests/handoffs/test_trace_facts.py
    tests/handoffs/test_verdicts.py
    tests/handoffs/webhooks/test_chat.py tests/handoffs/webhooks/test_client.py
    tests/handoffs/webhooks/test_documented.py
    tests/handoffs/webhooks/test_sending.py
    tests/policy/test_agents.py tests/policy/test_alert_rules.py tests/policy/test_defaults.py
    tests/policy/test_demands.py tests/policy/test_documented.py tests/policy/test_handoff_files.py
    tests/policy/test_known_agents.py tests/policy/test_parsing.py tests/policy/test_prompts.py
    tests/policy/test_versions.py
)

# Run only these tests of the file. Its other tests send only statements that these or other files send, too.
named=()
only() {
    local file=tests/$1
    shift
    named+=("${@/#/$file::}")
}
only access/test_api.py test_a_key_may_what_its_scope_allows
only access/test_pages.py test_a_member_may_what_the_role_allows
only api/test_agent_limits.py test_a_handoff_of_another_agent_is_not_superseded
only api/test_groups.py test_the_filters_are_those_of_the_page
only api/test_hooks_limits.py test_a_database_that_refuses_is_an_error_so_that_it_is_sent_again
only api/test_logs.py test_lines_are_found_with_what_they_say
only api/test_policies.py test_a_role_is_declared_by_the_caller_and_a_wrong_one_is_named
only api/test_rates.py \
    'test_every_rate_is_the_one_that_the_list_gives[24h]' \
    test_strictness_counts_the_same_final_attempts_as_compliance
only api/test_reading.py \
    test_a_list_takes_filters \
    test_it_is_alive_and_ready \
    test_one_whose_name_has_a_slash_is_found_by_its_name
only api/test_refused_keys.py \
    test_a_revoked_one_is_named_once_a_minute \
    test_one_revoked_while_the_body_was_sent_is_refused
only api/test_submit.py \
    test_an_id_that_a_person_decided_on_is_not_given_up \
    test_what_cannot_be_read_is_422_with_id_and_issues_and_kept \
    test_what_is_mended_has_the_id_of_what_could_not_be_read
only api/test_telemetry.py \
    test_a_refused_handoff_is_not_offered_again_and_its_reason_is_in_the_audit_log \
    test_a_trace_that_failed_again_and_again_is_removed_in_the_end \
    'test_no_key_of_a_lower_grade_takes_a_result_out_of_the_evidence[span-weak1-strong1]' \
    test_refused_handoffs_fill_neither_their_trace_nor_the_audit_log \
    'test_the_exports_of_a_run_become_its_handoffs[autogen-agentchat.native]' \
    'test_the_exports_of_a_run_become_its_handoffs[autogen-agentchat.openinference]' \
    test_what_there_is_no_time_for_is_given_back
only api/test_tool_results.py \
    test_a_legal_hold_keeps_the_results_of_its_trace \
    test_a_replaced_result_that_a_hold_keeps_is_no_evidence \
    test_a_trace_keeps_the_newest_results_and_evidence_longest \
    test_results_are_paged
only diagnostics/groups/test_code_mutes.py test_the_mute_ends_by_itself_and_a_second_one_prolongs_it
only diagnostics/groups/test_mutes.py \
    test_a_group_of_another_tenant_is_not_there \
    test_it_is_told_in_the_log_who_muted_it_and_why \
    test_the_sign_is_taken_off_by_who_has_seen_it
only diagnostics/groups/test_telling.py test_counted_by_two_at_once_it_is_told_once
only diagnostics/logs/test_search.py \
    test_a_page_of_long_lines_is_bounded_in_bytes \
    test_bad_lines_without_a_time_are_found_over_pages_although_their_blocks_end_at_once \
    test_nobody_finds_the_lines_of_others
only diagnostics/logs/test_store.py \
    test_a_last_line_without_an_end_counts_once_it_is_whole \
    test_a_log_grows_twice_at_once \
    test_an_import_that_a_person_stops_says_so \
    test_any_bytes_are_kept_as_they_came \
    test_blocks_that_reached_a_limit_are_known_after_their_lines_were_removed \
    test_it_grows_before_anybody_has_read_it \
    test_the_same_log_sent_twice_at_once_counts_once
only diagnostics/test_alert_rules.py \
    test_it_opens_gets_worse_and_closes_after_a_while \
    test_long_windows_are_read_from_the_counts_of_hours \
    test_of_several_at_once_one_does_it \
    test_what_a_person_acknowledged_is_not_opened_again_until_it_ended_or_got_worse \
    test_while_it_stands_it_is_told_again
only diagnostics/test_attribution.py \
    test_a_rebuild_without_its_lease_removes_no_groups \
    test_a_verdict_that_is_not_in_force_is_gone_over_once_too \
    test_of_a_long_trace_the_first_are_read_and_the_others_stand_alone \
    test_two_at_once_store_each_row_once
only handoffs/review/test_assignments.py \
    test_assigned_handoffs_are_listed_page_by_page \
    test_handoffs_of_a_person_who_may_no_longer_decide_are_in_the_queue_again \
    test_it_leaves_the_queue_and_is_with_who_it_went_to \
    test_tenants_see_their_own
only handoffs/review/test_proposals.py \
    test_a_proposal_dies_with_a_new_verdict \
    test_a_proposal_taken_back_makes_room_for_the_one_it_replaced
only handoffs/review/test_undo.py \
    test_a_held_one_whose_time_was_taken_has_its_types_again \
    test_an_own_proposal_is_taken_back \
    test_undoing_an_assignment_restores_the_one_before
only handoffs/test_approvals.py \
    test_many_approvals_at_once_are_bound_as_well \
    test_of_several_uses_at_once_one_succeeds \
    test_two_retries_share_no_approval
only handoffs/test_attempts.py \
    test_counts_are_applied_once_for_all_that_a_batch_changes \
    test_the_agents_of_a_long_lineage_are_read_once
only handoffs/test_dry_run_prompts.py \
    test_both_prompts_are_asked_and_flips_are_counted \
    test_one_whose_worker_ended_is_found_by_the_sweep_and_goes_on \
    test_the_cost_of_many_is_told_from_the_newest \
    test_what_it_costs_is_told_before_without_asking
only handoffs/test_lineage.py \
    test_parents_in_a_circle_end \
    test_the_chain_is_derived_through_parents
only handoffs/test_malformed.py \
    test_every_file_is_stored_as_it_came \
    test_what_is_json_is_judged_as_what_it_says
only handoffs/test_semantics.py test_while_it_waits_nobody_judges_it_again
only handoffs/test_sent_at.py \
    test_a_chain_is_derived_in_the_order_of_the_times \
    test_a_late_handoff_stands_at_its_own_time
only handoffs/test_transitions.py test_the_database_knows_the_states_too
only handoffs/webhooks/test_delivery.py \
    test_a_receiver_that_wants_nothing_more_is_switched_off \
    test_several_threads_send_each_once_and_in_order \
    test_what_waited_too_long_behind_others_is_given_up
only handoffs/webhooks/test_events.py \
    test_an_alert_is_told_when_it_opens_again_and_when_it_ends \
    test_older_alerts_keep_no_newer_alert_back \
    test_several_at_once_make_each_once \
    test_tenants_hear_of_their_own \
    test_what_commits_late_with_an_earlier_id_is_told_once
only handoffs/webhooks/test_mail.py test_an_alert_is_mailed_with_what_to_do_and_where test_what_flaps_fills_no_mailbox

# Slow tests and cases of files that run. Other tests send their statements, too.
slow=(
    tests/diagnostics/retention/test_documents.py::test_pages_say_when_and_by_which_rule
    'tests/diagnostics/retention/test_logs.py::test_a_log_that_grew_counts_what_is_new_and_keeps_only_that[7000'
    tests/diagnostics/retention/test_handoffs.py::test_what_names_a_removed_handoff_can_still_be_read
    'tests/handoffs/test_counts.py::test_after_anything_the_kept_counts_are_those_of_a_recount[1'
    'tests/handoffs/test_export.py::test_many_rows_need_no_more_memory_than_a_few_parts[ndjson'
    tests/handoffs/test_asking_at_once.py::test_a_worker_killed_
    tests/handoffs/test_policy_cases.py::test_a_hostile_case_is_refused
)

mapfile -t files < <(
    find "${searched[@]}" -name 'test_*.py' | sort |
        grep --invert-match --fixed-strings --line-regexp --file=<(printf '%s\n' "${left_out[@]}" "${named[@]%%::*}")
)
on_postgresql=("${files[@]}" "${named[@]}" "${slow[@]/#/--deselect=}" -k "not test_a_member_may or admin")
