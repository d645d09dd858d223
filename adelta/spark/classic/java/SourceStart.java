package adelta.spark;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.SocketTimeoutException;
import java.util.LinkedHashSet;
import java.util.Set;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;

/**
 * Starts the Python process of a streaming source again where Spark gave up waiting for it.
 *
 * Spark waits 10 seconds, which no setting changes, and fails the query then. On a busy machine
 * Python needs longer to load PySpark. Here the start is repeated within `spark.network.timeout`.
 */
public final class SourceStart implements InvocationHandler {
    private final Object target;
    private final String waitMs;

    /** Stands for a table, or for a scan of it or the builder of one; null for none of them yet. */
    public SourceStart(Object target, String waitMs) {
        this.target = target;
        this.waitMs = waitMs;
    }

    /** The same plan of a streaming read, whose table this class stands for. */
    public LogicalPlan repeated(LogicalPlan plan) {
        Object[] parts = new Object[plan.productArity()];
        for (int at = 0; at < parts.length; at++) {
            Object part = plan.productElement(at);
            parts[at] = part instanceof SupportsRead ? around(part) : part;
        }
        return (LogicalPlan) plan.makeCopy(parts);
    }

    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        String name = method.getName();
        if (name.equals("equals")) {
            return Boolean.valueOf(proxy == arguments[0]);
        }
        if (name.equals("toMicroBatchStream")) {
            return started(method, arguments);
        }
        Object answer = called(method, arguments);
        return answer instanceof ScanBuilder || answer instanceof Scan ? around(answer) : answer;
    }

    private Object started(Method method, Object[] arguments) throws Throwable {
        long end = System.nanoTime() + Long.parseLong(waitMs) * 1000000L;
        while (true) {
            try {
                return called(method, arguments);
            } catch (Exception error) {
                boolean late = error.getCause() instanceof SocketTimeoutException;
                // A query that is stopped interrupts the wait.
                boolean stopped = Thread.currentThread().isInterrupted();
                if (!late || stopped || System.nanoTime() > end) {
                    throw error;
                }
            }
        }
    }

    private Object called(Method method, Object[] arguments) throws Throwable {
        try {
            return method.invoke(target, arguments);
        } catch (InvocationTargetException error) {
            throw error.getTargetException();
        }
    }

    private Object around(Object target) {
        Set interfaces = new LinkedHashSet();
        for (Class each = target.getClass(); each != null; each = each.getSuperclass()) {
            Class[] found = each.getInterfaces();
            for (int at = 0; at < found.length; at++) {
                interfaces.add(found[at]);
            }
        }
        return Proxy.newProxyInstance(
            target.getClass().getClassLoader(),
            (Class[]) interfaces.toArray(new Class[0]),
            new SourceStart(target, waitMs));
    }
}
