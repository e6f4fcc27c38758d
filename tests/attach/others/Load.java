// Computes the same again and again.
import java.util.*;
public class Load { public static void main(String[] a) throws Exception {
  int want = work(); System.out.println("ready");
  while (System.in.available() == 0 && !closed()) { if (work() != want) throw new Error("another result"); }
  System.out.println("done"); System.exit(0); }
  static Thread reader; static volatile boolean over;
  static boolean closed() { if (reader == null) { reader = new Thread(() -> { try { while (System.in.read() >= 0); } catch (Exception e) {} over = true; }); reader.setDaemon(true); reader.start(); } return over; }
  static int work() { Map<Integer,String> m = new HashMap<>(); for (int i = 0; i < 20000; i++) m.put(i, "v" + i); int h = 0; for (var e : m.entrySet()) h = h * 31 + e.getValue().hashCode() + e.getKey(); return h; } }
