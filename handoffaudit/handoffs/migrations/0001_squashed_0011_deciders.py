import django.db.models.deletion
import django.utils.timezone
import handoffaudit.handoffs.models.handoff
from django.conf import settings
from django.db import migrations, models


# Documents and verdicts are compressed with lz4 where the server has it: the default of the server takes more time than
# the rest of an insert.
SET_LZ4 = """
    DO $$ BEGIN
        ALTER TABLE handoffs_handoffbody ALTER COLUMN original SET COMPRESSION lz4;
        ALTER TABLE handoffs_handoffbody ALTER COLUMN context SET COMPRESSION lz4;
        ALTER TABLE handoffs_handoffbody ALTER COLUMN evidence SET COMPRESSION lz4;
        ALTER TABLE handoffs_handoffbody ALTER COLUMN lifted SET COMPRESSION lz4;
        ALTER TABLE handoffs_verdict ALTER COLUMN content SET COMPRESSION lz4;
    EXCEPTION WHEN feature_not_supported THEN NULL;
    END $$
"""


def compress(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(SET_LZ4)


class Migration(migrations.Migration):

    replaces = [('handoffs', '0001_initial'), ('handoffs', '0002_compression'), ('handoffs', '0003_asking'), ('handoffs', '0004_gate'), ('handoffs', '0005_trial_unasked'), ('handoffs', '0006_webhooks'), ('handoffs', '0007_review'), ('handoffs', '0008_daily_counts'), ('handoffs', '0009_removed_documents'), ('handoffs', '0010_proposal_replaced'), ('handoffs', '0011_deciders')]

    initial = True

    dependencies = [
        ('accounts', '0001_squashed_0003_default_views'),
        ('accounts', '__first__'),
    ]

    operations = [
        migrations.CreateModel(
            name='Gathering',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('reached', models.BigIntegerField(default=0)),
                ('gaps', models.JSONField(default=list)),
                ('pass_number', models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name='Handoff',
            fields=[
                ('id', models.UUIDField(default=handoffaudit.handoffs.models.handoff.new_id, primary_key=True, serialize=False)),
                ('handoff_id', models.CharField(max_length=200)),
                ('format', models.CharField(max_length=20)),
                ('handoff_type', models.CharField(max_length=200)),
                ('source_agent_id', models.CharField(max_length=200)),
                ('target_agent_id', models.CharField(max_length=200)),
                ('trace_id', models.CharField(blank=True, max_length=200)),
                ('parent_handoff_id', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('retry_of', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('lineage', models.CharField(blank=True, db_default='', default='', max_length=200)),
                ('attempt', models.PositiveSmallIntegerField(db_default=1, default=1)),
                ('adapt', models.BooleanField(db_default=False, default=False)),
                ('repair', models.BooleanField(db_default=False, default=False)),
                ('repaired', models.BooleanField(db_default=False, default=False)),
                ('step', models.IntegerField(null=True)),
                ('state', models.CharField(choices=[('received', 'Received'), ('validating', 'Validating'), ('accepted', 'Accepted'), ('rejected', 'Rejected'), ('held', 'Held'), ('approved', 'Approved'), ('declined', 'Declined'), ('superseded', 'Superseded')], max_length=10)),
                ('version', models.PositiveIntegerField(db_default=1, default=1)),
                ('received_at', models.DateTimeField()),
                ('judged_at', models.DateTimeField(null=True)),
                ('sender_timestamp', models.DateTimeField(null=True)),
                ('size_bytes', models.PositiveIntegerField()),
                ('content_hash', models.CharField(max_length=64)),
                ('data_hash', models.CharField(max_length=64)),
                ('verdict', models.UUIDField(null=True)),
                ('score', models.FloatField(null=True)),
                ('codes', models.JSONField(db_default=[], default=list)),
                ('token_count', models.PositiveIntegerField(null=True)),
                ('chain_length', models.PositiveIntegerField(db_default=0, default=0)),
                ('warnings', models.BooleanField(db_default=False, default=False)),
                ('would_decide', models.CharField(blank=True, db_default='', default='', max_length=10)),
                ('approvable', models.BooleanField(db_default=True, default=True)),
                ('user_approved', models.BooleanField(db_default=False, default=False)),
                ('review_due_at', models.DateTimeField(null=True)),
                ('escalated', models.BooleanField(db_default=False, default=False)),
                ('unverified', models.BooleanField(db_default=False, default=False)),
                ('flagged', models.BooleanField(db_default=False, default=False)),
                ('open', models.BooleanField(db_default=False, default=False)),
                ('claim', models.UUIDField(null=True)),
                ('claim_expires_at', models.DateTimeField(null=True)),
                ('tries', models.PositiveSmallIntegerField(db_default=0, default=0)),
                ('parked', models.BooleanField(db_default=False, default=False)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'id'], name='handoff_by_time'), models.Index(fields=['tenant', 'state', 'id'], name='handoff_by_state'), models.Index(fields=['tenant', 'handoff_type', 'id'], name='handoff_by_type'), models.Index(fields=['tenant', 'source_agent_id', 'id'], name='handoff_by_source'), models.Index(fields=['tenant', 'target_agent_id', 'id'], name='handoff_by_target'), models.Index(fields=['tenant', 'trace_id', 'id'], name='handoff_by_trace'), models.Index(condition=models.Q(('parked', False), ('state__in', ('received', 'validating'))), fields=['claim_expires_at', 'id'], name='handoff_waiting'), models.Index(condition=models.Q(('lineage', ''), _negated=True), fields=['tenant', 'lineage', 'attempt'], name='handoff_by_lineage'), models.Index(condition=models.Q(('escalated', True)), fields=['tenant', 'state', 'id'], name='handoff_escalated'), models.Index(condition=models.Q(('state', 'held')), fields=['tenant', 'review_due_at'], name='handoff_due'), models.Index(condition=models.Q(('would_decide', ''), _negated=True), fields=['tenant', 'id'], name='handoff_shadowed'), models.Index(condition=models.Q(('warnings', True)), fields=['tenant', 'id'], name='handoff_warned'), models.Index(condition=models.Q(('parked', True)), fields=['tenant', 'id'], name='handoff_parked'), models.Index(condition=models.Q(('unverified', True)), fields=['tenant', 'id'], name='handoff_unverified'), models.Index(condition=models.Q(('flagged', True)), fields=['tenant', 'id'], name='handoff_flagged'), models.Index(condition=models.Q(('open', True)), fields=['tenant', 'id'], name='handoff_open'), models.Index(condition=models.Q(('state__in', ('approved', 'declined'))), fields=['tenant', 'handoff_type', 'id'], name='handoff_decided_type'), models.Index(condition=models.Q(('state__in', ('approved', 'declined'))), fields=['tenant', 'source_agent_id', 'target_agent_id', 'id'], name='handoff_decided_pair'), models.Index(condition=models.Q(('score__lt', 1)), fields=['tenant', 'score', 'id'], name='handoff_by_score')],
                'constraints': [models.UniqueConstraint(fields=('tenant', 'handoff_id'), name='handoff_id_once_per_tenant'), models.CheckConstraint(condition=models.Q(('state__in', ['received', 'validating', 'accepted', 'rejected', 'held', 'approved', 'declined', 'superseded'])), name='state_is_known')],
            },
        ),
        migrations.CreateModel(
            name='ModelBreaker',
            fields=[
                ('model', models.CharField(max_length=100, primary_key=True, serialize=False)),
                ('failures', models.PositiveIntegerField(default=0)),
                ('open_until', models.DateTimeField(null=True)),
                ('probing_until', models.DateTimeField(null=True)),
                ('reason', models.CharField(blank=True, max_length=20)),
            ],
        ),
        migrations.CreateModel(
            name='HandoffBody',
            fields=[
                ('handoff', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name='body', serialize=False, to='handoffs.handoff')),
                ('original', models.BinaryField()),
                ('context', models.BinaryField(null=True)),
                ('evidence', models.BinaryField(null=True)),
                ('lifted', models.BinaryField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='Finding',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('code', models.CharField(max_length=100)),
                ('severity', models.CharField(max_length=10)),
                ('layer', models.CharField(max_length=20)),
                ('field_path', models.CharField(max_length=500)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
                ('handoff', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='findings', to='handoffs.handoff')),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'code', 'handoff'], name='finding_by_code')],
            },
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('actor_kind', models.CharField(choices=[('person', 'Person'), ('key', 'Key'), ('system', 'System')], max_length=10)),
                ('actor', models.CharField(max_length=200)),
                ('from_state', models.CharField(blank=True, max_length=10)),
                ('to_state', models.CharField(max_length=10)),
                ('reason', models.TextField(blank=True)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
                ('handoff', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='events', to='handoffs.handoff')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('to_state__in', ('approved', 'declined'))), fields=['tenant', 'at'], name='event_decision'), models.Index(condition=models.Q(('to_state__in', ('approved', 'declined'))), fields=['tenant', 'actor'], name='event_decider')],
            },
        ),
        migrations.CreateModel(
            name='HookEvent',
            fields=[
                ('id', models.UUIDField(default=handoffaudit.handoffs.models.handoff.new_id, primary_key=True, serialize=False)),
                ('key', models.CharField(max_length=64)),
                ('name', models.CharField(max_length=40)),
                ('at', models.DateTimeField()),
                ('session_id', models.CharField(blank=True, max_length=200)),
                ('workflow_id', models.CharField(blank=True, max_length=200)),
                ('phase_id', models.CharField(max_length=200)),
                ('handoff', models.UUIDField(null=True)),
                ('phase', models.TextField(blank=True)),
                ('status', models.CharField(blank=True, max_length=20)),
                ('answer', models.TextField(blank=True)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'key'), name='one_answer_per_event')],
            },
        ),
        migrations.CreateModel(
            name='HourlyCount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('handoff_type', models.CharField(max_length=200)),
                ('source_agent_id', models.CharField(max_length=200)),
                ('target_agent_id', models.CharField(max_length=200)),
                ('state', models.CharField(max_length=10)),
                ('code', models.CharField(blank=True, max_length=100)),
                ('number', models.BigIntegerField()),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'hour', 'handoff_type', 'source_agent_id', 'target_agent_id', 'state', 'code'), name='one_hourly_count')],
            },
        ),
        migrations.CreateModel(
            name='HourlyTotal',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('state', models.CharField(max_length=10)),
                ('code', models.CharField(blank=True, max_length=100)),
                ('number', models.BigIntegerField()),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('code', '')), fields=['tenant', 'state', 'hour'], name='hourly_total_by_state'), models.Index(condition=models.Q(('code', ''), _negated=True), fields=['tenant', 'code', 'state'], name='hourly_total_by_code')],
                'constraints': [models.UniqueConstraint(fields=('tenant', 'hour', 'state', 'code'), name='one_hourly_total')],
            },
        ),
        migrations.CreateModel(
            name='ModelAnswer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(max_length=64)),
                ('model', models.CharField(max_length=100)),
                ('text', models.TextField()),
                ('cost_usd', models.FloatField()),
                ('latency_ms', models.FloatField()),
                ('at', models.DateTimeField(db_index=True)),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='accounts.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'key'), name='one_answer_per_question')],
            },
        ),
        migrations.CreateModel(
            name='ModelCall',
            fields=[
                ('id', models.UUIDField(default=handoffaudit.handoffs.models.handoff.new_id, primary_key=True, serialize=False)),
                ('handoff', models.UUIDField(null=True)),
                ('at', models.DateTimeField()),
                ('use', models.CharField(max_length=10)),
                ('model', models.CharField(max_length=100)),
                ('prompt', models.CharField(max_length=200)),
                ('outcome', models.CharField(max_length=20)),
                ('http_status', models.PositiveSmallIntegerField(null=True)),
                ('detail', models.CharField(blank=True, max_length=500)),
                ('tokens_in', models.PositiveIntegerField(default=0)),
                ('tokens_out', models.PositiveIntegerField(default=0)),
                ('tokens_cached', models.PositiveIntegerField(default=0)),
                ('cost_usd', models.FloatField(default=0)),
                ('latency_ms', models.FloatField(default=0)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('cached', models.BooleanField(default=False)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'at'], name='model_call_by_time'), models.Index(fields=['tenant', 'handoff'], name='model_call_by_handoff')],
            },
        ),
        migrations.CreateModel(
            name='ModelSpend',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('usd', models.FloatField(default=0)),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='accounts.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'day'), name='one_spend_per_day')],
            },
        ),
        migrations.CreateModel(
            name='Remediation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('lineage', models.CharField(max_length=200)),
                ('content', models.TextField()),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'lineage'), name='one_remediation_per_lineage')],
            },
        ),
        migrations.CreateModel(
            name='Subscriber',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('webhook', 'Webhook'), ('email', 'Email')], max_length=10)),
                ('name', models.CharField(max_length=100)),
                ('address', models.CharField(max_length=500)),
                ('secret', models.CharField(blank=True, max_length=100)),
                ('events', models.JSONField(default=list)),
                ('states', models.JSONField(default=list)),
                ('active', models.BooleanField(default=True)),
                ('heard_from', models.DateTimeField(default=django.utils.timezone.now)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('created_by', models.CharField(max_length=200)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='accounts.tenant')),
            ],
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.UUIDField(default=handoffaudit.handoffs.models.handoff.new_id, primary_key=True, serialize=False)),
                ('event', models.CharField(max_length=10)),
                ('about', models.CharField(max_length=100)),
                ('payload', models.TextField()),
                ('created_at', models.DateTimeField()),
                ('due_at', models.DateTimeField(null=True)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('claim', models.UUIDField(null=True)),
                ('delivered_at', models.DateTimeField(null=True)),
                ('gave_up_at', models.DateTimeField(null=True)),
                ('last_status', models.PositiveSmallIntegerField(null=True)),
                ('last_error', models.CharField(blank=True, max_length=500)),
                ('last_ms', models.FloatField(null=True)),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='accounts.tenant')),
                ('subscriber', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='handoffs.subscriber')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='delivery_due'), models.Index(condition=models.Q(('due_at__isnull', False)), fields=['subscriber', 'due_at'], name='delivery_due_of_one'), models.Index(fields=['tenant', 'subscriber', 'id'], name='delivery_by_subscriber')],
                'constraints': [models.UniqueConstraint(fields=('subscriber', 'about'), name='one_delivery_per_event')],
            },
        ),
        migrations.CreateModel(
            name='Trial',
            fields=[
                ('id', models.UUIDField(default=handoffaudit.handoffs.models.handoff.new_id, primary_key=True, serialize=False)),
                ('kind', models.CharField(max_length=20)),
                ('draft', models.TextField()),
                ('base_version', models.PositiveIntegerField()),
                ('handoff_types', models.JSONField(default=list)),
                ('most', models.PositiveIntegerField()),
                ('since', models.DateTimeField(null=True)),
                ('started_by', models.CharField(max_length=200)),
                ('started_at', models.DateTimeField(auto_now_add=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('error', models.CharField(blank=True, max_length=500)),
                ('total', models.PositiveIntegerField(default=0)),
                ('judged', models.PositiveIntegerField(default=0)),
                ('unasked', models.PositiveIntegerField(default=0)),
                ('removed', models.PositiveIntegerField(db_default=0, default=0)),
                ('reached', models.UUIDField(null=True)),
                ('flips', models.JSONField(default=dict)),
                ('changed', models.JSONField(default=list)),
                ('claim', models.UUIDField(null=True)),
                ('claim_expires_at', models.DateTimeField(null=True)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('tenant', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('finished_at', None)), fields=['id'], name='trial_unfinished'), models.Index(fields=['tenant', 'id'], name='trial_by_time')],
            },
        ),
        migrations.CreateModel(
            name='ValidationState',
            fields=[
                ('id', models.UUIDField(default=handoffaudit.handoffs.models.handoff.new_id, primary_key=True, serialize=False)),
                ('event', models.UUIDField()),
                ('workflow_id', models.CharField(max_length=200)),
                ('phase_id', models.CharField(max_length=200)),
                ('status', models.CharField(max_length=20)),
                ('content', models.TextField()),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'workflow_id', 'phase_id', 'event'], name='state_by_phase')],
                'constraints': [models.UniqueConstraint(fields=('event', 'status'), name='one_state_per_event_and_status')],
            },
        ),
        migrations.CreateModel(
            name='Verdict',
            fields=[
                ('id', models.UUIDField(default=handoffaudit.handoffs.models.handoff.new_id, primary_key=True, serialize=False)),
                ('outcome', models.CharField(max_length=10)),
                ('policy_version', models.PositiveIntegerField()),
                ('validated_at', models.DateTimeField()),
                ('content', models.TextField()),
                ('handoff', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='verdicts', to='handoffs.handoff')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
        ),
        migrations.CreateModel(
            name='Alert',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=40)),
                ('level', models.CharField(db_default='alert', default='alert', max_length=10)),
                ('value', models.FloatField(null=True)),
                ('notified_at', models.DateTimeField(null=True)),
                ('opened_at', models.DateTimeField()),
                ('last_at', models.DateTimeField()),
                ('number', models.PositiveIntegerField(default=1)),
                ('acknowledged_at', models.DateTimeField(null=True)),
                ('acknowledged_by', models.CharField(blank=True, max_length=200)),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'opened_at'], name='alert_by_time')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('acknowledged_at', None)), fields=('tenant', 'kind'), name='one_open_alert_per_kind')],
            },
        ),
        migrations.CreateModel(
            name='DailyCount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('source_agent_id', models.CharField(max_length=200)),
                ('accepted', models.BigIntegerField(default=0)),
                ('decided', models.BigIntegerField(default=0)),
                ('stopped', models.BigIntegerField(default=0)),
                ('superseded', models.BigIntegerField(default=0)),
                ('code', models.CharField(blank=True, max_length=100)),
                ('handoff_type', models.CharField(max_length=200)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'code', 'day', 'source_agent_id', 'handoff_type'), name='one_daily_count')],
            },
        ),
        migrations.CreateModel(
            name='DailyPair',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('source_agent_id', models.CharField(max_length=200)),
                ('accepted', models.BigIntegerField(default=0)),
                ('decided', models.BigIntegerField(default=0)),
                ('stopped', models.BigIntegerField(default=0)),
                ('superseded', models.BigIntegerField(default=0)),
                ('target_agent_id', models.CharField(max_length=200)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'day', 'source_agent_id', 'target_agent_id'), name='one_daily_pair')],
            },
        ),
        migrations.CreateModel(
            name='HandedOut',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('session', models.CharField(max_length=64)),
                ('tool_use', models.CharField(blank=True, default='', max_length=64)),
                ('agent', models.CharField(blank=True, default='', max_length=64)),
                ('target', models.CharField(blank=True, default='', max_length=200)),
                ('handoff', models.UUIDField(null=True)),
                ('returned', models.UUIDField(null=True)),
                ('deliverable', models.CharField(blank=True, default='', max_length=64)),
                ('over', models.BooleanField(default=False)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'session'], name='handed_out_by_session')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('tool_use', ''), _negated=True), fields=('tenant', 'session', 'tool_use'), name='one_task_per_tool_use'), models.UniqueConstraint(condition=models.Q(('agent', ''), _negated=True), fields=('tenant', 'session', 'agent'), name='one_task_per_agent')],
            },
        ),
        migrations.CreateModel(
            name='ModelCheck',
            fields=[
                ('handoff', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name='check_due', serialize=False, to='handoffs.handoff')),
                ('kind', models.CharField(choices=[('first', 'First'), ('recheck', 'Recheck'), ('repair', 'Repair')], max_length=10)),
                ('since', models.DateTimeField()),
                ('claim', models.UUIDField(null=True)),
                ('claim_expires_at', models.DateTimeField(null=True)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(fields=['kind', 'handoff'], name='model_check_by_kind')],
            },
        ),
        migrations.CreateModel(
            name='PassedOn',
            fields=[
                ('handoff', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, serialize=False, to='handoffs.handoff')),
                ('by', models.CharField(max_length=200)),
                ('note', models.TextField(blank=True)),
                ('version', models.PositiveIntegerField()),
                ('over', models.BooleanField(db_default=False, default=False)),
                ('at', models.DateTimeField()),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
                ('to', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('over', False)), fields=['tenant', 'handoff'], name='passed_on_by_tenant')],
            },
        ),
        migrations.CreateModel(
            name='Proposal',
            fields=[
                ('handoff', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, serialize=False, to='handoffs.handoff')),
                ('decision', models.CharField(max_length=10)),
                ('note', models.TextField(blank=True)),
                ('actor_kind', models.CharField(max_length=10)),
                ('actor', models.CharField(max_length=200)),
                ('version', models.PositiveIntegerField()),
                ('over', models.BooleanField(db_default=False, default=False)),
                ('at', models.DateTimeField()),
                ('replaced', models.JSONField(null=True)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('over', False)), fields=['tenant', 'handoff'], name='proposal_by_tenant')],
            },
        ),
        migrations.CreateModel(
            name='RemovedDocument',
            fields=[
                ('handoff', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name='removed_document', serialize=False, to='handoffs.handoff')),
                ('at', models.DateTimeField()),
                ('days', models.PositiveIntegerField()),
                ('sha256', models.CharField(max_length=64)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
        ),
        migrations.CreateModel(
            name='ReviewHold',
            fields=[
                ('handoff', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, serialize=False, to='handoffs.handoff')),
                ('until', models.DateTimeField()),
                ('person', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.RunPython(compress, migrations.RunPython.noop),
    ]
