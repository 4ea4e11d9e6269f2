from handoffaudit_client import Client

audit = Client()  # reads HANDOFFAUDIT_URL and HANDOFFAUDIT_KEY
findings = {"summary": "Three suppliers deliver within a week."}

with audit.trace():
    verdict = audit.gate("researcher", "writer", findings)
    if verdict:
        print("The writer may start.")
    else:
        print(verdict.why)
