"""Where rows come from: files are fetched, prepared and read as a source declares it."""
