"""What runs on a desktop's X server: a window manager alone, or a whole shell."""
