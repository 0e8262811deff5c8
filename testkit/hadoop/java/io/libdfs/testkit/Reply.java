package io.libdfs.testkit;

import java.io.UnsupportedEncodingException;
import java.net.URLEncoder;

/** One answer line: {@code OK key=value ...}, values percent-encoded, keys may repeat. */
final class Reply {
  private final StringBuilder line = new StringBuilder("OK");

  Reply put(String key, Object value) {
    line.append(' ').append(key).append('=').append(encode(String.valueOf(value)));
    return this;
  }

  @Override
  public String toString() {
    return line.toString();
  }

  static String encode(String text) {
    try {
      return URLEncoder.encode(text, "UTF-8").replace("+", "%20");
    } catch (UnsupportedEncodingException e) {
      throw new IllegalStateException(e);
    }
  }

  static String error(Throwable thrown) {
    String message = thrown.getMessage() == null ? "" : thrown.getMessage();
    return "ERR " + thrown.getClass().getName() + " " + encode(message);
  }
}
