"""The console: pages that show people what is remembered, where it came from and why it changed. `site` puts them together."""
