"""The owner of a directory answers the cluster's protocol for it, so that other processes reach the store, too."""
