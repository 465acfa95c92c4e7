"""The comparison of atled with NNabla: cases, the runs in both libraries, the page with the results."""
