package io.libdfs.hadoop;

import java.io.IOException;
import java.util.Collections;
import java.util.concurrent.CompletableFuture;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.impl.FutureDataInputStreamBuilderImpl;

/** Builder of native input streams; Hadoop has such builders since 3.3. */
final class InputBuilder33 extends FutureDataInputStreamBuilderImpl {
  private final NativeDistributedFileSystem fs;
  private final Path path;

  private InputBuilder33(NativeDistributedFileSystem fs, Path path) {
    super(fs, path);
    this.fs = fs;
    this.path = path;
  }

  static FutureDataInputStreamBuilder of(NativeDistributedFileSystem fs, Path path) {
    return new InputBuilder33(fs, path).getThisBuilder();
  }

  @Override
  public CompletableFuture<FSDataInputStream> build() throws IOException {
    // The standard options are hints, of which libdfs needs none; others were not understood.
    java.util.Set<String> unknown = new java.util.TreeSet<>(getMandatoryKeys());
    unknown.removeIf(key -> key.startsWith("fs.option.openfile."));
    if (!unknown.isEmpty()) {
      throw new IllegalArgumentException(
          "openFile(" + path + ") knows no mandatory option " + Collections.max(unknown));
    }
    CompletableFuture<FSDataInputStream> future = new CompletableFuture<>();
    try {
      future.complete(fs.open(path, getBufferSize()));
    } catch (IOException e) {
      future.completeExceptionally(e);
    }
    return future;
  }
}
