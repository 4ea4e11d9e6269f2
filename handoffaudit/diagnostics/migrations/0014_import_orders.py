from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0006_time_zone'),
        ('diagnostics', '0013_hourly_files'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='logimport',
            index=models.Index(fields=['tenant', 'source', 'id'], name='log_import_by_name'),
        ),
        migrations.AddIndex(
            model_name='logimport',
            index=models.Index(fields=['tenant', 'size', 'id'], name='log_import_by_size'),
        ),
        migrations.AddIndex(
            model_name='logimport',
            index=models.Index(fields=['tenant', 'bad', 'id'], name='log_import_by_bad'),
        ),
    ]
