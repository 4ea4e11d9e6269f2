import django.db.models.deletion
import handoffaudit.handoffs.models.handoff
import uuid
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [('diagnostics', '0001_initial'), ('diagnostics', '0002_finding_groups'), ('diagnostics', '0003_retention'), ('diagnostics', '0004_traced_by_agent')]

    initial = True

    dependencies = [
        ('accounts', '0001_squashed_0003_default_views'),
    ]

    operations = [
        migrations.CreateModel(
            name='Watermark',
            fields=[
                ('name', models.CharField(max_length=50, primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='FindingGroup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('code', models.CharField(max_length=100)),
                ('path_shape', models.CharField(max_length=500)),
                ('source_agent_id', models.CharField(max_length=200)),
                ('target_agent_id', models.CharField(max_length=200)),
                ('key', models.CharField(max_length=64)),
                ('number', models.PositiveBigIntegerField(default=0)),
                ('first_seen', models.DateTimeField()),
                ('last_seen', models.DateTimeField()),
                ('muted_at', models.DateTimeField(null=True)),
                ('muted_by', models.CharField(blank=True, max_length=200)),
                ('muted_note', models.TextField(blank=True)),
                ('muted_until', models.PositiveBigIntegerField(null=True)),
                ('regressed_at', models.DateTimeField(null=True)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'last_seen'], name='group_by_last_seen'), models.Index(fields=['tenant', 'number'], name='group_by_number'), models.Index(fields=['tenant', 'code', 'last_seen'], name='group_by_code'), models.Index(condition=models.Q(('muted_at__isnull', False)), fields=['tenant', 'muted_at'], name='group_muted'), models.Index(condition=models.Q(('regressed_at__isnull', False)), fields=['tenant', 'regressed_at'], name='group_regressed')],
                'constraints': [models.UniqueConstraint(fields=('tenant', 'key'), name='one_group_per_key')],
            },
        ),
        migrations.CreateModel(
            name='FindingGroupDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('number', models.BigIntegerField()),
                ('group', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='diagnostics.findinggroup')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('group', 'day'), name='one_group_day')],
            },
        ),
        migrations.CreateModel(
            name='GroupedHandoff',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('handoff', models.UUIDField()),
                ('decisive', models.BooleanField()),
                ('group', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='diagnostics.findinggroup')),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'handoff'], name='grouped_by_handoff')],
                'constraints': [models.UniqueConstraint(fields=('group', 'handoff'), name='once_per_group')],
            },
        ),
        migrations.CreateModel(
            name='HealthCount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('agent', models.CharField(max_length=200)),
                ('phase', models.CharField(max_length=200)),
                ('runtime', models.CharField(blank=True, max_length=200)),
                ('source', models.CharField(max_length=20)),
                ('reason', models.CharField(blank=True, max_length=20)),
                ('fallback', models.CharField(blank=True, max_length=20)),
                ('number', models.BigIntegerField()),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'phase', 'agent'], name='health_count_by_pair')],
                'constraints': [models.UniqueConstraint(fields=('tenant', 'hour', 'agent', 'phase', 'runtime', 'source', 'reason', 'fallback'), name='one_health_count')],
            },
        ),
        migrations.CreateModel(
            name='LogCount',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField()),
                ('kind', models.CharField(max_length=10)),
                ('event', models.CharField(blank=True, max_length=40)),
                ('level', models.CharField(blank=True, max_length=10)),
                ('component', models.CharField(blank=True, max_length=200)),
                ('number', models.BigIntegerField()),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'hour', 'kind', 'event', 'level', 'component'), name='one_log_count')],
            },
        ),
        migrations.CreateModel(
            name='LogImport',
            fields=[
                ('id', models.UUIDField(default=handoffaudit.handoffs.models.handoff.new_id, primary_key=True, serialize=False)),
                ('source', models.CharField(max_length=200)),
                ('sent_by', models.CharField(max_length=200)),
                ('started_at', models.DateTimeField()),
                ('received_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('size', models.BigIntegerField(default=0)),
                ('lines', models.BigIntegerField(default=0)),
                ('known', models.BigIntegerField(default=0)),
                ('read', models.BigIntegerField(default=0)),
                ('bad', models.BigIntegerField(default=0)),
                ('kinds', models.JSONField(default=dict)),
                ('error', models.CharField(blank=True, max_length=500)),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'id'], name='log_import_by_time')],
            },
        ),
        migrations.CreateModel(
            name='LogBlock',
            fields=[
                ('id', models.UUIDField(default=handoffaudit.handoffs.models.handoff.new_id, primary_key=True, serialize=False)),
                ('source', models.CharField(max_length=200)),
                ('digest', models.CharField(max_length=64)),
                ('occurrence', models.PositiveIntegerField(default=0)),
                ('first_line', models.BigIntegerField()),
                ('lines', models.PositiveIntegerField()),
                ('size', models.PositiveIntegerField()),
                ('tail', models.BooleanField(default=False)),
                ('counted', models.PositiveIntegerField(default=0)),
                ('known', models.PositiveIntegerField(default=0)),
                ('bad', models.PositiveIntegerField(default=0)),
                ('first_at', models.DateTimeField(null=True)),
                ('last_at', models.DateTimeField(null=True)),
                ('facets', models.TextField(blank=True)),
                ('parsed_at', models.DateTimeField(null=True)),
                ('claim', models.UUIDField(null=True)),
                ('claim_expires_at', models.DateTimeField(null=True)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('removed_at', models.DateTimeField(null=True)),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='accounts.tenant')),
                ('imported', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='diagnostics.logimport')),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'last_at'], name='log_block_by_time'), models.Index(condition=models.Q(('tail', True)), fields=['tenant', 'source'], name='log_block_tail'), models.Index(condition=models.Q(('removed_at', None)), fields=['tenant', 'id'], name='log_block_kept'), models.Index(condition=models.Q(('parsed_at', None)), fields=['claim_expires_at', 'id'], name='log_block_unread')],
                'constraints': [models.UniqueConstraint(fields=('tenant', 'source', 'digest', 'occurrence'), name='one_log_block')],
            },
        ),
        migrations.CreateModel(
            name='LogText',
            fields=[
                ('block', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='text', serialize=False, to='diagnostics.logblock')),
                ('packed', models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name='RetentionRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=20)),
                ('days', models.PositiveIntegerField()),
                ('before', models.DateTimeField()),
                ('started_at', models.DateTimeField()),
                ('reached', models.UUIDField(default=uuid.UUID('00000000-0000-0000-0000-000000000000'))),
                ('number', models.PositiveBigIntegerField(default=0)),
                ('finished_at', models.DateTimeField(null=True)),
                ('removed', models.PositiveBigIntegerField(default=0)),
                ('removed_at', models.DateTimeField(null=True)),
                ('removed_before', models.DateTimeField(null=True)),
                ('removed_days', models.PositiveIntegerField(null=True)),
                ('tenant', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to='accounts.tenant')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('tenant', 'kind'), name='one_retention_run_per_kind')],
            },
        ),
        migrations.CreateModel(
            name='TracedHandoff',
            fields=[
                ('handoff', models.UUIDField(primary_key=True, serialize=False)),
                ('trace_id', models.CharField(blank=True, max_length=200)),
                ('at', models.DateTimeField()),
                ('source_agent_id', models.CharField(max_length=200)),
                ('target_agent_id', models.CharField(max_length=200)),
                ('took_seconds', models.FloatField(null=True)),
                ('caused', models.PositiveIntegerField(default=0)),
                ('passed_on', models.PositiveIntegerField(default=0)),
                ('verdict', models.UUIDField(null=True)),
                ('grouped', models.BooleanField(db_default=False, default=False)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('grouped', False)), fields=['handoff'], name='traced_not_grouped'), models.Index(fields=['tenant', 'at'], name='traced_by_time'), models.Index(fields=['tenant', 'trace_id'], name='traced_by_trace'), models.Index(fields=['tenant', 'source_agent_id', 'at'], name='traced_by_source'), models.Index(fields=['tenant', 'target_agent_id', 'at'], name='traced_by_target')],
            },
        ),
        migrations.CreateModel(
            name='Attribution',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('trace_id', models.CharField(blank=True, max_length=200)),
                ('handoff', models.UUIDField()),
                ('at', models.DateTimeField()),
                ('agent', models.CharField(max_length=200)),
                ('code', models.CharField(max_length=100)),
                ('field_path', models.CharField(max_length=500)),
                ('value', models.CharField(blank=True, max_length=200)),
                ('caused', models.BooleanField()),
                ('origin', models.UUIDField(null=True)),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'agent', 'at'], name='attribution_by_agent'), models.Index(fields=['tenant', 'trace_id'], name='attribution_by_trace'), models.Index(fields=['tenant', 'handoff'], name='attribution_by_handoff')],
            },
        ),
        migrations.CreateModel(
            name='FileReport',
            fields=[
                ('id', models.UUIDField(default=handoffaudit.handoffs.models.handoff.new_id, primary_key=True, serialize=False)),
                ('handoff', models.UUIDField(unique=True)),
                ('at', models.DateTimeField()),
                ('run_id', models.CharField(blank=True, max_length=200)),
                ('agent', models.CharField(max_length=200)),
                ('phase', models.CharField(max_length=200)),
                ('runtime', models.CharField(blank=True, max_length=200)),
                ('iteration', models.CharField(blank=True, max_length=40)),
                ('expected_path', models.CharField(max_length=1000)),
                ('wrong_path', models.CharField(blank=True, max_length=1000)),
                ('source', models.CharField(max_length=20)),
                ('reason', models.CharField(blank=True, max_length=20)),
                ('fallback', models.CharField(blank=True, max_length=20)),
                ('failed', models.BooleanField()),
                ('content', models.TextField()),
                ('tenant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, to='accounts.tenant')),
            ],
            options={
                'indexes': [models.Index(fields=['tenant', 'id'], name='file_report_by_time'), models.Index(fields=['tenant', 'reason', 'id'], name='file_report_by_reason'), models.Index(fields=['tenant', 'agent', 'phase', 'id'], name='file_report_by_agent'), models.Index(fields=['tenant', 'run_id', 'id'], name='file_report_by_run')],
            },
        ),
    ]
