package adelta.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Collections;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.unsafe.Platform;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** What is asked of Python. An answer that is an error is thrown, as Spark has it. */
public final class InPython {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Function function;

    /** `function` takes an array: what is asked, and the particulars. */
    public InPython(Function function) {
        this.function = function;
    }

    /** The answer; `table` is what an error is about. */
    public Object ask(Identifier table, Object[] question) {
        Object answer = function.apply(question);
        if (answer instanceof String && ((String) answer).startsWith("!")) {
            Map error = read(((String) answer).substring(1));
            String kind = (String) error.get("kind");
            Exception thrown = null;
            if ("missing".equals(kind) && table != null) {
                thrown = new NoSuchTableException(table);
            } else if ("exists".equals(kind) && table != null) {
                thrown = new TableAlreadyExistsException(table);
            } else {
                thrown = new Refused((String) error.get("message"), (String) error.get("token"));
            }
            Platform.throwException(thrown);
        }
        return answer;
    }

    /** JSON as maps and lists. */
    public static Map read(String json) {
        try {
            return (Map) JSON.readValue(json, Map.class);
        } catch (java.io.IOException error) {
            throw new IllegalArgumentException("what Python said cannot be read", error);
        }
    }

    /** Maps and lists as JSON. */
    public static String write(Object value) {
        try {
            return JSON.writeValueAsString(value);
        } catch (java.io.IOException error) {
            throw new IllegalArgumentException("what was asked cannot be written", error);
        }
    }

    /** An error of adelta's. */
    public static final class Refused extends AnalysisException {
        private final String token;

        public Refused(String message) {
            this(message, null);
        }

        /** `token` is what Python knows the error by; null where that is not asked for. */
        public Refused(String message, String token) {
            this(null, message, token);
        }

        /** `condition` is one of delta-spark's; null where it has none. */
        public Refused(String condition, String message, String token) {
            super(
                condition == null ? message : "[" + condition + "] " + message,
                Option.empty(),
                Option.empty(),
                Option.empty(),
                Option.apply(condition),
                scala.collection.immutable.Map$.MODULE$.from(
                    CollectionConverters.asScala(Collections.EMPTY_MAP)),
                new org.apache.spark.QueryContext[0]);
            this.token = token;
        }

        public String token() {
            return token;
        }
    }
}
