package io.libdfs.testkit;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.util.VersionInfo;

/**
 * Hadoop's own client behind lines of text: what a test compares against. One command line on
 * standard input (see {@link Args}) gives one answer line on standard output: {@code OK ...} (see
 * {@link Reply}) or {@code ERR CLASS MESSAGE}. The configuration comes from the class path. The
 * first line, {@code READY VERSION}, comes without a command; the program ends with its input.
 */
public final class Oracle {
  /** One command. */
  private interface Command {
    void run(Args args, Reply reply) throws Exception;
  }

  private final Map<String, Command> commands = new HashMap<String, Command>();

  private Oracle() {
    Configuration conf = new HdfsConfiguration();
    // A close that comes before the DataNode's report would otherwise sleep 400 ms.
    conf.set("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", "20");
    Sessions sessions = new Sessions(conf);
    FileCommands files = new FileCommands(sessions);
    commands.put("write", files::write);
    commands.put("append", files::append);
    commands.put("open", files::open);
    commands.put("put", files::putHeld);
    commands.put("hflush", files::hflush);
    commands.put("hsync", files::hsync);
    commands.put("close", files::close);
    commands.put("abandon", files::abandon);
    commands.put("read", files::read);
    commands.put("checksum", files::checksum);
    NamespaceCommands names = new NamespaceCommands(sessions);
    commands.put("stat", names::stat);
    commands.put("list", names::list);
    commands.put("locations", names::locations);
    commands.put("mkdir", names::mkdir);
    commands.put("rename", names::rename);
    commands.put("delete", names::delete);
    commands.put("setrep", names::setReplication);
    commands.put("chmod", names::setPermission);
    commands.put("chown", names::setOwner);
    commands.put("settimes", names::setTimes);
    commands.put("truncate", names::truncate);
    commands.put("recoverlease", names::recoverLease);
    commands.put("isclosed", names::isFileClosed);
    commands.put("summary", names::contentSummary);
    commands.put("fsstatus", names::fsStatus);
    commands.put("datanodes", names::datanodes);
    commands.put("tool", names::tool);
  }

  private String answer(String line) {
    try {
      Args args = new Args(line);
      Command command = commands.get(args.verb);
      if (command == null) {
        throw new IllegalArgumentException("unknown command " + args.verb);
      }
      Reply reply = new Reply();
      command.run(args, reply);
      return reply.toString();
    } catch (Throwable thrown) {
      // An Error, too, is an answer: a test that waits for a line must get one.
      thrown.printStackTrace();
      return Reply.error(thrown);
    }
  }

  /** Entry point; see the class comment. */
  public static void main(String[] args) throws Exception {
    PrintStream answers = System.out;
    // Whatever Hadoop prints must not get between the answers.
    System.setOut(System.err);
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    Oracle oracle = new Oracle();
    answers.println("READY " + VersionInfo.getVersion());
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      answers.println(oracle.answer(line));
    }
    // Open writers are left as a crash leaves them; threads of the client do not hold the exit.
    Runtime.getRuntime().halt(0);
  }
}
