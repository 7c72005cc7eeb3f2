"""Loss, backward, optimizer and multi-step comparison."""
