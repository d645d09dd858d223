package adelta.spark;

import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadFactory;
import java.util.function.Function;

/**
 * A function of Python's that any thread may call.
 *
 * Py4J opens a connection for every thread that calls Python, with a thread there that serves it,
 * and never closes it. Spark plans queries in threads that come and go: so a few that stay call.
 */
public final class PythonFunction implements Function {
    private static final ExecutorService CALLERS = Executors.newFixedThreadPool(8, new Daemons());

    private final Function function;

    /** `function` is Python's own. */
    public PythonFunction(Function function) {
        this.function = function;
    }

    public Object apply(Object argument) {
        Future answer = CALLERS.submit(new Call(function, argument));
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

        Call(Function function, Object argument) {
            this.function = function;
            this.argument = argument;
        }

        public Object call() {
            return function.apply(argument);
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
