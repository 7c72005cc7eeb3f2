def search(assignment, plan, agreement):
    return None
