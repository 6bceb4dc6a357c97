import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;

/** What the JDBC driver of Arrow Flight SQL gets from a server: lines under titles, for test_jdbc.py. */
public class FlightSqlJdbc {
    static String shown(Object value) {
        return value instanceof byte[] ? Arrays.toString((byte[]) value) : String.valueOf(value);
    }

    static void rows(String title, ResultSet rows, String... columns) throws SQLException {
        System.out.println("# " + title);
        while (rows.next()) {
            List<String> values = new ArrayList<>();
            for (String column : columns) {
                values.add(shown(rows.getObject(column)));
            }
            System.out.println(String.join(" | ", values));
        }
        rows.close();
    }

    static void allRows(String title, ResultSet rows) throws SQLException {
        ResultSetMetaData columns = rows.getMetaData();
        String[] names = new String[columns.getColumnCount()];
        for (int i = 0; i < names.length; i++) {
            names[i] = columns.getColumnName(i + 1);
        }
        rows(title, rows, names);
    }

    static void statements(Connection connection) throws SQLException {
        System.out.println("# updates");
        try (Statement statement = connection.createStatement()) {
            System.out.println(statement.executeUpdate(
                "CREATE TABLE j (k INT PRIMARY KEY, v VARCHAR(10), d DECIMAL(15,2), x DOUBLE, t TIMESTAMP, "
                + "dt DATE, b BOOLEAN, n BIGINT, y BINARY, f FLOAT, s SMALLINT)"));
            System.out.println(statement.executeUpdate("INSERT INTO j (k, v, d) VALUES (1, 'one', 1.5), (9, NULL, NULL)"));
            System.out.println(statement.executeUpdate("DELETE FROM j WHERE k = 9"));
        }
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO j VALUES (?,?,?,?,?,?,?,?,?,?,?)")) {
            for (int key = 2; key < 5; key++) {
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
            System.out.println(Arrays.toString(statement.executeBatch()));
        }
    }

    static void queries(Connection connection) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("SELECT * FROM j WHERE k >= ? ORDER BY k LIMIT 2")) {
            statement.setInt(1, 1);
            ResultSet found = statement.executeQuery();
            ResultSetMetaData columns = found.getMetaData();
            System.out.println("# result columns");
            for (int i = 1; i <= columns.getColumnCount(); i++) {
                System.out.println(columns.getColumnName(i) + " | " + columns.getColumnTypeName(i) + " | "
                    + columns.getPrecision(i) + " | " + columns.getScale(i));
            }
            allRows("result", found);
            statement.setInt(1, 4);
            rows("result again", statement.executeQuery(), "k", "v");
        }
        try (Statement statement = connection.createStatement()) {
            System.out.println("# transaction");
            statement.executeUpdate("BEGIN");
            statement.executeUpdate("DELETE FROM j");
            statement.executeUpdate("ROLLBACK");
            rows("after it", statement.executeQuery("SELECT count(*) AS n FROM j"), "n");
            System.out.println("# error");
            statement.executeQuery("SELECT * FROM nope");
        } catch (SQLException error) {
            System.out.println(error.getMessage().replace("\n", " "));
        }
    }

    static void metadata(Connection connection, String schema) throws SQLException {
        DatabaseMetaData data = connection.getMetaData();
        System.out.println("# product");
        System.out.println(data.getDatabaseProductName() + " | " + data.getIdentifierQuoteString());
        System.out.println(data.supportsTransactions() + " | " + data.supportsOuterJoins() + " | " + data.supportsUnionAll());
        System.out.println(Arrays.asList(data.getNumericFunctions().split(", ?")).contains("abs"));
        rows("catalogs", data.getCatalogs(), "TABLE_CAT");
        rows("schemas", data.getSchemas(null, schema), "TABLE_CATALOG", "TABLE_SCHEM");
        rows("table types", data.getTableTypes(), "TABLE_TYPE");
        rows("tables", data.getTables(null, schema, "%", new String[] {"TABLE", "VIEW"}), "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE");
        rows("columns", data.getColumns(null, schema, "j", "%"), "COLUMN_NAME", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS",
            "ORDINAL_POSITION");
        rows("primary keys", data.getPrimaryKeys(null, null, "j"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME");
        rows("imported keys", data.getImportedKeys(null, null, "j"), "FKTABLE_NAME");
        rows("exported keys", data.getExportedKeys(null, null, "j"), "FKTABLE_NAME");
        rows("cross reference", data.getCrossReference(null, null, "j", null, null, "j"), "FKTABLE_NAME");
    }

    public static void main(String[] arguments) throws SQLException {
        Properties properties = new Properties();
        properties.put("user", arguments[1]);
        properties.put("password", arguments[2]);
        try (Connection connection = DriverManager.getConnection(arguments[0], properties)) {
            statements(connection);
            queries(connection);
            metadata(connection, arguments[3]);
        }
    }
}
