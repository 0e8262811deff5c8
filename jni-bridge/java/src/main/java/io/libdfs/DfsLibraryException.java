package io.libdfs;

import java.io.IOException;

/** The native library cannot be loaded; the message says what to do. */
public final class DfsLibraryException extends IOException {
  private static final long serialVersionUID = 1L;

  DfsLibraryException(String message, Throwable cause) {
    super(message, cause);
  }
}
