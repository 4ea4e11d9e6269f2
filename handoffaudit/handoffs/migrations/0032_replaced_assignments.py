from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('handoffs', '0031_sent_handoffs'),
    ]

    operations = [
        migrations.AddField(
            model_name='passedon',
            name='replaced',
            field=models.JSONField(null=True),
        ),
    ]
