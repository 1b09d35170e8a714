"""Files that clients upload: kept in one folder, written atomically, bounded in size."""
