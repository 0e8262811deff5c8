package io.libdfs.hadoop;

import java.io.IOException;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;

/**
 * What the create and append methods return: an {@code FSDataOutputStream} with the extras of
 * {@code HdfsDataOutputStream}, which programs may find by reflection.
 */
public final class NativeFsOutput extends FSDataOutputStream {
  private final NativeOutput output;

  NativeFsOutput(NativeOutput output, FileSystem.Statistics statistics, long start)
      throws IOException {
    super(output, statistics, start);
    this.output = output;
  }

  /** DataNodes that receive the current block. */
  public int getCurrentBlockReplication() throws IOException {
    return output.replicas();
  }

  /** {@code ip:port} of the DataNodes that receive the current block, first node first. */
  public String[] getPipelineNodes() throws IOException {
    return output.pipeline();
  }

  /**
   * Syncs to the DataNodes' disks.
   *
   * @param updateLength the NameNode learns the length, so that it shows in the file's status
   * @param endBlock the block ends here
   */
  public void hsync(boolean updateLength, boolean endBlock) throws IOException {
    output.hsync(updateLength, endBlock);
  }
}
