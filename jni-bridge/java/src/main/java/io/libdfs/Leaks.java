package io.libdfs;

import java.lang.ref.PhantomReference;
import java.lang.ref.Reference;
import java.lang.ref.ReferenceQueue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Streams that were dropped without close. Their native half is given back and the leak is logged;
 * a written file is abandoned, never completed behind its owner's back.
 */
final class Leaks {
  private static final ReferenceQueue<Object> DEAD = new ReferenceQueue<>();
  private static final Set<Guard> GUARDS = ConcurrentHashMap.newKeySet();

  private Leaks() {}

  static final class Guard extends PhantomReference<Object> {
    private final long handle;
    private final String what;

    private Guard(Object owner, long handle, String what) {
      super(owner, DEAD);
      this.handle = handle;
      this.what = what;
    }

    /** The owner was closed properly. */
    void dismiss() {
      clear();
      GUARDS.remove(this);
    }
  }

  static Guard watch(Object owner, long handle, String what) {
    Guard guard = new Guard(owner, handle, what);
    GUARDS.add(guard);
    return guard;
  }

  static void collect() {
    Reference<?> dead;
    while ((dead = DEAD.poll()) != null) {
      Guard guard = (Guard) dead;
      GUARDS.remove(guard);
      LogDrain.warn(guard.what + " was dropped without close");
      Natives.free(guard.handle);
    }
  }
}
