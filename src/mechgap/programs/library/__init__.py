"""Programs that come with the package."""
