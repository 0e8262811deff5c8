package io.libdfs;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.lang.ref.PhantomReference;
import java.lang.ref.Reference;
import java.lang.ref.ReferenceQueue;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.spi.AbstractInterruptibleChannel;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Makes the native waits of a thread interruptible. Each thread has a flag in native memory, which
 * its calls look at while they wait. The JDK tells a channel when the thread that is blocked on it
 * is interrupted, so a channel without any I/O of its own sets the flag.
 *
 * <p>Use: {@code Interrupts i = Interrupts.begin(); try { call(i.flag); } catch (DfsException e) {
 * throw i.explain(e); } finally { i.end(); }}. Nothing is allocated unless an interrupt comes.
 */
final class Interrupts {
  private static final ReferenceQueue<Interrupts> DEAD = new ReferenceQueue<>();
  private static final Set<Flag> FLAGS = ConcurrentHashMap.newKeySet();
  private static final ThreadLocal<Interrupts> CURRENT =
      ThreadLocal.withInitial(Interrupts::create);

  /** A native flag, which outlives its thread and then serves another one. */
  private static final class Flag extends PhantomReference<Interrupts> {
    private final int number;

    Flag(Interrupts owner, int number) {
      super(owner, DEAD);
      this.number = number;
    }
  }

  private static final class Channel extends AbstractInterruptibleChannel {
    private final int flag;

    Channel(int flag) {
      this.flag = flag;
    }

    void enter() {
      begin();
    }

    void leave() throws AsynchronousCloseException {
      end(true);
    }

    @Override
    protected void implCloseChannel() {
      Natives.setInterruptFlag(flag, true);
    }
  }

  /** The number that native calls of this thread get. */
  final int flag;

  private Channel channel;

  private Interrupts(int flag) {
    this.flag = flag;
    this.channel = new Channel(flag);
  }

  private static Interrupts create() {
    Reference<? extends Interrupts> dead = DEAD.poll();
    int number;
    if (dead != null) {
      FLAGS.remove(dead);
      number = ((Flag) dead).number;
      Natives.setInterruptFlag(number, false);
    } else {
      number = Natives.interruptFlag();
    }
    Interrupts made = new Interrupts(number);
    FLAGS.add(new Flag(made, number));
    return made;
  }

  /** Begins a call that may wait. */
  static Interrupts begin() {
    Interrupts current = CURRENT.get();
    if (!current.channel.isOpen()) {
      Natives.setInterruptFlag(current.flag, false);
      current.channel = new Channel(current.flag);
    }
    current.channel.enter();
    return current;
  }

  /** Ends the call. The thread stays interrupted if it was. */
  void end() {
    try {
      channel.leave();
    } catch (AsynchronousCloseException interrupted) {
      // The call has its own result or exception; the interrupt status tells of the rest.
    }
  }

  /**
   * The exception to throw for a failed call: an interrupt ends a call as a time limit does, and
   * clears the interrupt status, as everywhere in Java.
   */
  IOException explain(DfsException failure) {
    if (failure.status() == DfsException.TIMED_OUT && !channel.isOpen() && Thread.interrupted()) {
      InterruptedIOException interrupted =
          new InterruptedIOException("interrupted: " + failure.getMessage());
      interrupted.initCause(failure);
      return interrupted;
    }
    if (failure.status() == DfsException.NOT_FOUND) {
      java.io.FileNotFoundException missing =
          new java.io.FileNotFoundException(failure.getMessage());
      missing.initCause(failure);
      return missing;
    }
    return failure;
  }
}
