"""The wire: real servers as child processes, loaded and watched from outside, in both eras."""
