"""From runs to claims: measures, statistics, comparison, verdict."""
