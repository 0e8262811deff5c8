package io.libdfs.hadoop;

import java.io.IOException;
import org.apache.hadoop.fs.LeaseRecoverable;
import org.apache.hadoop.fs.SafeMode;
import org.apache.hadoop.fs.SafeModeAction;
import org.apache.hadoop.hdfs.DistributedFileSystem;

/**
 * The same with the interfaces {@code LeaseRecoverable} and {@code SafeMode}, which came with Hadoop
 * 3.3.6: for programs that look for them and do not unwrap a {@code FilterFileSystem}.
 */
public class NativeDistributedFileSystem336 extends NativeDistributedFileSystem
    implements LeaseRecoverable, SafeMode {
  @Override
  public boolean setSafeMode(SafeModeAction action, boolean isChecked) throws IOException {
    return ((DistributedFileSystem) fs).setSafeMode(action, isChecked);
  }
}
