"""Notes in a database: an application that is opened and closed with the server.

    toolcrib call add_note title=milk text="two bottles" -t examples/notes.py
    toolcrib call find_notes words=bottles -t examples/notes.py
    toolcrib serve examples/notes.py

The database is notes.db in the current folder, or NOTES_FILE.
"""

from __future__ import annotations

import os
import sqlite3
from threading import Lock

from toolcrib import Application, ToolError, tool


class Notes(Application):
    """Tools that share one connection; they run on several threads, so a lock guards it."""

    def __init__(self, file: str | None = None) -> None:
        super().__init__()
        self.file = file or os.environ.get("NOTES_FILE", "notes.db")
        self.lock = Lock()

    def open(self) -> None:
        self.db = sqlite3.connect(self.file, check_same_thread=False)
        self.db.execute("CREATE TABLE IF NOT EXISTS note (title TEXT PRIMARY KEY, text TEXT NOT NULL)")

    def close(self) -> None:
        self.db.close()

    @tool(idempotent=True)
    def add_note(self, title: str, text: str) -> str:
        """Add a note, or replace the one with the same title.

        Args:
            title: A short title
            text: The note itself

        Example:
            add_note(title="milk", text="two bottles")
        """
        with self.lock, self.db:
            self.db.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (title, text))
        return f"Kept {title!r}"

    @tool(read_only=True)
    def find_notes(self, words: str) -> list[dict[str, str]]:
        """Find the notes that contain some words.

        Args:
            words: Words that the title or the text contains

        Returns:
            Titles and texts, by title
        """
        query = "SELECT title, text FROM note WHERE instr(title || ' ' || text, ?) ORDER BY title"
        with self.lock:
            rows = self.db.execute(query, (words,)).fetchall()
        return [{"title": title, "text": text} for title, text in rows]

    @tool(destructive=True)
    def delete_note(self, title: str) -> str:
        """Delete one note for good.

        Args:
            title: The title of the note
        """
        with self.lock, self.db:
            if not self.db.execute("DELETE FROM note WHERE title = ?", (title,)).rowcount:
                raise ToolError(f"There is no note {title!r}")
        return f"Deleted {title!r}"


notes = Notes()
