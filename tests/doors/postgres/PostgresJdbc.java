import java.io.ByteArrayOutputStream;
import java.io.StringReader;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.sql.Timestamp;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

/** What the JDBC driver of PostgreSQL gets from a server: lines under titles, for test_pgjdbc.py. */
public class PostgresJdbc {
    static void title(String text) {
        System.out.println("# " + text);
    }

    static String shown(Object value) {
        return value instanceof byte[] ? Arrays.toString((byte[]) value) : String.valueOf(value);
    }

    static void rows(String title, ResultSet rows, String... columns) throws SQLException {
        title(title);
        ResultSetMetaData data = rows.getMetaData();
        while (rows.next()) {
            List<String> values = new ArrayList<>();
            if (columns.length == 0) {
                for (int i = 1; i <= data.getColumnCount(); i++) {
                    values.add(shown(rows.getObject(i)));
                }
            }
            for (String column : columns) {
                values.add(shown(rows.getObject(column)));
            }
            System.out.println(String.join(" | ", values));
        }
        rows.close();
    }

    static void updates(Connection connection) throws SQLException {
        title("updates");
        try (Statement statement = connection.createStatement()) {
            System.out.println(statement.executeUpdate(
                "CREATE TABLE j (k INT PRIMARY KEY, v VARCHAR(10), d DECIMAL(15,2), x DOUBLE PRECISION, t TIMESTAMP, "
                + "dt DATE, b BOOLEAN, n BIGINT, y BYTEA, f REAL, s SMALLINT)"));
            System.out.println(statement.executeUpdate("INSERT INTO j (k, v, d) VALUES (1, 'one', 1.5), (9, NULL, NULL)"));
            System.out.println(statement.executeUpdate("DELETE FROM j WHERE k = 9"));
        }
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO j VALUES (?,?,?,?,?,?,?,?,?,?,?)")) {
            for (int key = 2; key < 12; key++) {
                statement.setInt(1, key);
                statement.setString(2, "v" + key);
                statement.setBigDecimal(3, new BigDecimal("2.25"));
                statement.setDouble(4, 0.5);
                statement.setTimestamp(5, Timestamp.valueOf("2024-01-02 03:04:05.123"));
                statement.setDate(6, Date.valueOf("2024-01-02"));
                statement.setBoolean(7, true);
                statement.setLong(8, 1L << 40);
                statement.setBytes(9, new byte[] {1, 2});
                statement.setFloat(10, 1.5f);
                statement.setShort(11, (short) 7);
                statement.addBatch();
            }
            System.out.println(Arrays.stream(statement.executeBatch()).map(Math::abs).sum());
        }
        try (PreparedStatement statement = connection.prepareStatement(
                "INSERT INTO j (k, t, dt) VALUES (?, ?, ?)")) {
            statement.setInt(1, 20);
            statement.setObject(2, LocalDateTime.of(2024, 2, 29, 12, 0));
            statement.setObject(3, LocalDate.of(2024, 2, 29));
            System.out.println(statement.executeUpdate());
        }
    }

    static void queries(Connection connection) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("SELECT * FROM j WHERE k >= ? ORDER BY k LIMIT 2")) {
            statement.setInt(1, 1);
            ResultSet found = statement.executeQuery();
            ResultSetMetaData columns = found.getMetaData();
            title("result columns");
            for (int i = 1; i <= columns.getColumnCount(); i++) {
                System.out.println(columns.getColumnName(i) + " | " + columns.getColumnTypeName(i) + " | "
                    + columns.getPrecision(i) + " | " + columns.getScale(i));
            }
            rows("result", found);
            statement.setInt(1, 4);
            rows("result again", statement.executeQuery(), "k", "v");
        }
        title("many times");
        try (PreparedStatement statement = connection.prepareStatement("SELECT v, d, t, y FROM j WHERE k = ? AND v = ?")) {
            int count = 0;
            for (int i = 0; i < 40; i++) {  // the driver prepares by name, and changes to binary, after some
                statement.setInt(1, 2 + i % 10);
                statement.setString(2, "v" + (2 + i % 10));
                ResultSet found = statement.executeQuery();
                found.next();
                if (found.getBigDecimal(2).equals(new BigDecimal("2.25")) && found.getBytes(4).length == 2
                        && found.getTimestamp(3).equals(Timestamp.valueOf("2024-01-02 03:04:05.123"))) {
                    count++;
                }
            }
            System.out.println(count);
        }
        title("null, list, computed");
        try (PreparedStatement statement = connection.prepareStatement(
                "SELECT count(*), sum(d) FROM j WHERE k = ANY (?) AND (v = ? OR ? IS NULL)")) {
            statement.setArray(1, connection.createArrayOf("int4", new Integer[] {2, 3, 99}));
            statement.setNull(2, java.sql.Types.VARCHAR);
            statement.setNull(3, java.sql.Types.VARCHAR);
            ResultSet found = statement.executeQuery();
            found.next();
            System.out.println(found.getLong(1) + " | " + found.getBigDecimal(2));
        }
        title("error");
        try (Statement statement = connection.createStatement()) {
            statement.executeQuery("SELECT * FROM nope");
        } catch (SQLException error) {
            System.out.println(error.getSQLState() + " | " + error.getMessage().replace("\n", " "));
        }
        title("duplicate");
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate("INSERT INTO j (k) VALUES (1)");
        } catch (SQLException error) {
            System.out.println(error.getSQLState());
        }
    }

    static void transactions(Connection connection) throws SQLException {
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            title("cursor");
            statement.setFetchSize(300);
            ResultSet found = statement.executeQuery("SELECT n FROM generate_series(1, 1000) AS g(n)");
            long sum = 0;
            while (found.next()) {
                sum += found.getLong(1);
            }
            System.out.println(sum);
            title("savepoint");
            statement.executeUpdate("DELETE FROM j WHERE k > 5");
            Savepoint point = connection.setSavepoint("one");
            statement.executeUpdate("DELETE FROM j");
            connection.rollback(point);
            found = statement.executeQuery("SELECT count(*) FROM j");
            found.next();
            System.out.println(found.getInt(1));
            connection.rollback();
            found = statement.executeQuery("SELECT count(*) FROM j");
            found.next();
            System.out.println(found.getInt(1));
        }
        connection.commit();
        connection.setAutoCommit(true);
        title("isolation");
        connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
        System.out.println(connection.getTransactionIsolation() == Connection.TRANSACTION_REPEATABLE_READ);
        connection.setReadOnly(true);
        connection.setReadOnly(false);
    }

    static void copies(Connection connection) throws Exception {
        CopyManager manager = connection.unwrap(PGConnection.class).getCopyAPI();
        title("copy");
        System.out.println(manager.copyIn("COPY j (k, v) FROM STDIN WITH (FORMAT csv)", new StringReader("100,a\n101,\"b,\"\n")));
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        System.out.println(manager.copyOut("COPY (SELECT k, v FROM j WHERE k >= 100 ORDER BY k) TO STDOUT", out));
        System.out.print(out.toString(StandardCharsets.UTF_8));
    }

    static void sink(Connection connection) throws SQLException {
        title("sink");
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate("CREATE TABLE sunk (k INT NOT NULL PRIMARY KEY, v TEXT, n BIGINT)");
        }
        connection.setAutoCommit(false);
        try (PreparedStatement upsert = connection.prepareStatement(
                "INSERT INTO \"public\".\"sunk\" (\"k\",\"v\",\"n\") VALUES (?,?,?) ON CONFLICT (\"k\") DO UPDATE SET "
                + "\"v\"=EXCLUDED.\"v\",\"n\"=EXCLUDED.\"n\"");
                PreparedStatement delete = connection.prepareStatement("DELETE FROM \"public\".\"sunk\" WHERE \"k\"=?")) {
            for (int round = 0; round < 3; round++) {
                for (int key = round; key < round + 100; key++) {
                    upsert.setInt(1, key);
                    upsert.setString(2, "round " + round);
                    upsert.setLong(3, key * 10L);
                    upsert.addBatch();
                }
                System.out.println(Arrays.stream(upsert.executeBatch()).map(Math::abs).sum());
                delete.setInt(1, round);
                delete.addBatch();
                System.out.println(Arrays.toString(delete.executeBatch()));
                connection.commit();
            }
        }
        connection.setAutoCommit(true);
        try (Statement statement = connection.createStatement()) {
            rows("sunk", statement.executeQuery("SELECT v, count(*) AS c, min(k), max(k), sum(n) FROM sunk GROUP BY v ORDER BY v"));
        }
    }

    static void keys(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            statement.executeUpdate("CREATE TABLE loose (a INT, b TEXT)");
            statement.executeUpdate("INSERT INTO loose VALUES (1, 'x'), (1, 'x')");
            rows("without a key", statement.executeQuery("SELECT * FROM loose"));
        }
        try (PreparedStatement statement = connection.prepareStatement(
                "INSERT INTO j (k, v) VALUES (?, 'back')", Statement.RETURN_GENERATED_KEYS)) {
            statement.setInt(1, 200);
            statement.executeUpdate();
            rows("generated keys", statement.getGeneratedKeys(), "k", "v");
        }
        try (PreparedStatement statement = connection.prepareStatement(
                "INSERT INTO j (k, v) VALUES (?, 'back')", new String[] {"k"})) {
            statement.setInt(1, 201);
            statement.executeUpdate();
            rows("named keys", statement.getGeneratedKeys());
        }
    }

    static void metadata(Connection connection) throws SQLException {
        DatabaseMetaData data = connection.getMetaData();
        title("product");
        System.out.println(data.getDatabaseProductName() + " | " + data.getDatabaseMajorVersion() + " | " + data.getIdentifierQuoteString());
        System.out.println(data.supportsTransactions() + " | " + data.supportsBatchUpdates() + " | " + connection.getCatalog()
            + " | " + connection.getSchema());
        rows("catalogs", data.getCatalogs(), "TABLE_CAT");
        rows("schemas", data.getSchemas(), "TABLE_SCHEM");
        rows("table types", data.getTableTypes(), "TABLE_TYPE");
        rows("tables", data.getTables(null, "public", "%", new String[] {"TABLE", "VIEW"}), "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE");
        rows("columns", data.getColumns(null, "public", "j", "%"), "COLUMN_NAME", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS",
            "IS_NULLABLE", "ORDINAL_POSITION");
        rows("primary keys", data.getPrimaryKeys(null, "public", "j"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME");
        rows("imported keys", data.getImportedKeys(null, "public", "j"), "FKTABLE_NAME");
        rows("exported keys", data.getExportedKeys(null, "public", "j"), "FKTABLE_NAME");
        rows("index info", data.getIndexInfo(null, "public", "j", false, true), "INDEX_NAME", "COLUMN_NAME", "NON_UNIQUE");
        rows("best row", data.getBestRowIdentifier(null, "public", "j", DatabaseMetaData.bestRowSession, true), "COLUMN_NAME");
        rows("privileges", data.getTablePrivileges(null, "public", "nope"), "TABLE_NAME");
        rows("functions", data.getFunctions(null, null, "upper"), "FUNCTION_NAME");
        rows("procedures", data.getProcedures(null, null, "nope"), "PROCEDURE_NAME");
        title("types");
        ResultSet types = data.getTypeInfo();
        List<String> names = new ArrayList<>();
        while (types.next()) {
            names.add(types.getString("TYPE_NAME"));
        }
        for (String name : new String[] {"int4", "int8", "numeric", "timestamp", "text", "bytea", "bool", "date", "float8"}) {
            System.out.println(name + " " + names.contains(name));
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0], "me", arguments.length > 1 ? arguments[1] : "")) {
            updates(connection);
            queries(connection);
            transactions(connection);
            copies(connection);
            sink(connection);
            keys(connection);
            metadata(connection);
        }
    }
}
