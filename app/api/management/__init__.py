"""The management API: routes by capability, with the bodies they read and write."""
