package adelta.spark;

import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadFactory;
import java.util.function.Function;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;
import scala.Option;

/**
 * A function of Python's that any thread may call.
 *
 * Py4J opens a connection for every thread that calls Python, with a thread there that serves it,
 * and never closes it. Spark plans queries in threads that come and go: so a few that stay call,
 * each with the local properties of the thread that asks: jobs of Python's are of its group.
 */
public final class PythonFunction implements Function {
    private static final ExecutorService CALLERS = Executors.newFixedThreadPool(8, new Daemons());

    private final Function function;

    /** `function` is Python's own. */
    public PythonFunction(Function function) {
        this.function = function;
    }

    public Object apply(Object argument) {
        Option active = SparkContext$.MODULE$.getActive();
        SparkContext context = active.isEmpty() ? null : (SparkContext) active.get();
        Future answer = CALLERS.submit(new Call(function, argument, context));
        try {
            return answer.get();
        } catch (InterruptedException error) {
            answer.cancel(false);
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while Python was asked", error);
        } catch (ExecutionException error) {
            throw new IllegalStateException("Python could not be asked", error.getCause());
        }
    }

    private static final class Call implements Callable {
        private final Function function;
        private final Object argument;
        private final SparkContext context;
        private final Properties asked;

        Call(Function function, Object argument, SparkContext context) {
            this.function = function;
            this.argument = argument;
            this.context = context;
            this.asked = context == null ? null : (Properties) context.getLocalProperties().clone();
        }

        public Object call() {
            if (context == null) {
                return function.apply(argument);
            }
            context.setLocalProperties(asked);
            try {
                return function.apply(argument);
            } finally {
                context.setLocalProperties(new Properties());
            }
        }
    }

    private static final class Daemons implements ThreadFactory {
        public Thread newThread(Runnable work) {
            Thread made = new Thread(work, "adelta-python");
            made.setDaemon(true);
            return made;
        }
    }
}
