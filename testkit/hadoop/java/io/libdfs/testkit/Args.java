package io.libdfs.testkit;

import java.io.UnsupportedEncodingException;
import java.net.URLDecoder;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * One command line: {@code verb key=value key=value ...}. Values are percent-encoded; a key may
 * come more than once.
 */
final class Args {
  final String verb;
  private final Map<String, List<String>> values = new LinkedHashMap<String, List<String>>();

  Args(String line) throws UnsupportedEncodingException {
    String[] words = line.trim().split(" +");
    verb = words[0];
    for (int i = 1; i < words.length; i++) {
      int eq = words[i].indexOf('=');
      if (eq < 0) {
        throw new IllegalArgumentException("expected key=value, not " + words[i]);
      }
      String key = words[i].substring(0, eq);
      // URLDecoder turns '+' into a space; the sender encodes '+' itself.
      String value = URLDecoder.decode(words[i].substring(eq + 1), "UTF-8");
      List<String> list = values.get(key);
      if (list == null) {
        list = new ArrayList<String>();
        values.put(key, list);
      }
      list.add(value);
    }
  }

  boolean has(String key) {
    return values.containsKey(key);
  }

  List<String> all(String key) {
    List<String> list = values.get(key);
    return list == null ? Collections.<String>emptyList() : list;
  }

  /** Keys that start with the prefix, with it cut off, and their first values. */
  Map<String, String> withPrefix(String prefix) {
    Map<String, String> found = new LinkedHashMap<String, String>();
    for (Map.Entry<String, List<String>> entry : values.entrySet()) {
      if (entry.getKey().startsWith(prefix)) {
        found.put(entry.getKey().substring(prefix.length()), entry.getValue().get(0));
      }
    }
    return found;
  }

  String text(String key) {
    List<String> list = values.get(key);
    if (list == null) {
      throw new IllegalArgumentException(verb + " needs " + key + "=");
    }
    return list.get(0);
  }

  String text(String key, String otherwise) {
    return has(key) ? text(key) : otherwise;
  }

  long number(String key) {
    return Long.parseLong(text(key));
  }

  long number(String key, long otherwise) {
    return has(key) ? number(key) : otherwise;
  }

  int count(String key, int otherwise) {
    return (int) number(key, otherwise);
  }

  boolean flag(String key) {
    return text(key, "false").equals("true");
  }
}
