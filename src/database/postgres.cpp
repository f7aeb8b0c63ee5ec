#include "database/postgres.h"

#include "base/quote.h"

#ifdef MAKAR_POSTGRES
#include <libpq-fe.h>
#include <poll.h>

#include <cstdlib>
#include <cstring>
#endif

namespace makar {

bool is_postgres_address(const std::string& path) {
  return path.starts_with("postgresql://") || path.starts_with("postgres://");
}

#ifndef MAKAR_POSTGRES

std::string postgres_address_without_password(const std::string&) { return "postgresql:"; }
bool has_postgres_password(const std::string&) { return false; }

void Postgres::Close::operator()(pg_conn*) const {}
Result<Postgres> Postgres::open(const std::string&) {
  return error_of(Error::Kind::kUnsupported, "PostgreSQL",
                  "this program was built without libpq; install libpq-dev and build it again");
}
Status Postgres::each(const std::string&, const SqlRow&, const std::function<void(const SqlRow&)>&) const {
  return Done{};
}
Status Postgres::script(const std::string&) const { return Done{}; }
bool Postgres::is_ready() const { return true; }
Status Postgres::reconnect() const { return Done{}; }
Status Postgres::begin() const { return Done{}; }
Status Postgres::begin_reading() const { return Done{}; }
Status Postgres::stream(const std::string&, std::chrono::steady_clock::time_point, std::vector<std::string>&,
                        const std::function<bool(const std::vector<Cell>&)>&) const {
  return Done{};
}
Result<std::vector<std::string>> Postgres::describe(const std::string&) const {
  return std::vector<std::string>();
}

#else
namespace {

constexpr const char* kConnectSeconds = "10";
constexpr std::chrono::seconds kCancelTimeout(5);  // until a cancelled statement must have ended
constexpr int64_t kWriterLock = 0x6D6B6978;        // the key of the advisory lock that writers take
// Types of columns (pg_type.h of the server).
constexpr Oid kBool = 16, kBytes = 17, kInt8 = 20, kInt2 = 21, kInt4 = 23, kFloat4 = 700, kFloat8 = 701;

struct Clear {
  void operator()(PGresult* result) const { PQclear(result); }
};
using PostgresResult = std::unique_ptr<PGresult, Clear>;

// Replaces each ? by $1, $2 and so on, except in quotes.
std::string numbered_parameters(const std::string& sql) {
  std::string out;
  bool quoted = false;
  for (int next = 1; const char c : sql) {
    if (c == '\'') quoted = !quoted;
    if (c == '?' && !quoted) {
      out += '$' + std::to_string(next++);
    } else {
      out += c;
    }
  }
  return out;
}

// The values of a statement as the arguments of libpq.
struct BoundValues {
  std::vector<std::string> texts;
  std::vector<const char*> values;
  std::vector<int> lengths, formats;
  std::vector<Oid> types;

  explicit BoundValues(const SqlRow& row) : texts(row.size()) {
    for (size_t i = 0; i < row.size(); ++i) {
      const auto* blob = std::get_if<SqlBlob>(&row[i]);
      const auto* text = std::get_if<std::string>(&row[i]);
      if (const auto* number = std::get_if<int64_t>(&row[i])) texts[i] = std::to_string(*number);
      if (const auto* number = std::get_if<double>(&row[i])) texts[i] = fmt::format("{}", *number);
      const bool null = std::holds_alternative<std::nullptr_t>(row[i]);
      values.push_back(null ? nullptr : blob ? blob->bytes.data() : text ? text->c_str() : texts[i].c_str());
      lengths.push_back(blob ? static_cast<int>(blob->bytes.size()) : 0);
      formats.push_back(blob ? 1 : 0);
      types.push_back(blob ? kBytes : 0);
    }
  }
};

SqlValue column(const PGresult* result, int row, int at) {
  if (PQgetisnull(result, row, at)) return nullptr;
  const char* bytes = PQgetvalue(result, row, at);
  const auto size = static_cast<size_t>(PQgetlength(result, row, at));
  switch (PQftype(result, at)) {
    case kBool:
      return int64_t{bytes[0] == 't'};
    case kInt2:
    case kInt4:
    case kInt8:
      return static_cast<int64_t>(std::strtoll(bytes, nullptr, 10));
    case kFloat4:
    case kFloat8:
      return std::strtod(bytes, nullptr);
    case kBytes: {
      size_t length = 0;
      unsigned char* unescaped = PQunescapeBytea(reinterpret_cast<const unsigned char*>(bytes), &length);
      SqlBlob out{std::string(reinterpret_cast<const char*>(unescaped), unescaped ? length : 0)};
      PQfreemem(unescaped);
      return out;
    }
    default:
      return std::string(bytes, size);
  }
}

// A part of an address for messages: without control characters, at most 200 bytes.
std::string printable_part(const char* text) {
  const std::string quoted = quote(text ? text : "", 200);
  return quoted.substr(1, quoted.size() - 2);
}

std::string printable_address(const char* host, const char* port, const char* database) {
  return fmt::format("postgresql://{}{}{}/{}", printable_part(host), port && *port ? ":" : "",
                     printable_part(port), printable_part(database));
}

// The first line of a message of libpq, which ends in a line break.
std::string first_line(const char* message) {
  std::string out = message ? message : "";
  out.resize(std::min(out.find('\n'), out.size()));
  return quote(out, 400);
}

}  // namespace

std::string postgres_address_without_password(const std::string& address) {
  std::string host, port, database;
  if (PQconninfoOption* const options = PQconninfoParse(address.c_str(), nullptr)) {
    for (const PQconninfoOption* o = options; o->keyword; ++o) {
      const std::string_view key = o->keyword, value = o->val ? o->val : "";
      if (key == "host") host = value;
      if (key == "port") port = value;
      if (key == "dbname") database = value;
    }
    PQconninfoFree(options);
  }
  return printable_address(host.c_str(), port.c_str(), database.c_str());
}

bool has_postgres_password(const std::string& address) {
  PQconninfoOption* const options = PQconninfoParse(address.c_str(), nullptr);
  bool out = false;
  for (const PQconninfoOption* o = options; o && o->keyword; ++o)
    out = out || (std::string_view(o->keyword).ends_with("password") && o->val && *o->val);
  PQconninfoFree(options);
  return out;
}

void Postgres::Close::operator()(pg_conn* connection) const { PQfinish(connection); }

Error Postgres::error(const pg_result* result) const {
  const char* primary = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : nullptr;
  const char* state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : nullptr;
  const bool is_limit = state && (std::strncmp(state, "53", 2) == 0 || std::strncmp(state, "54", 2) == 0);
  return error_of(is_limit ? Error::Kind::kLimit : Error::Kind::kIo, path(), "{}",
                  first_line(primary ? primary : PQerrorMessage(connection_.get())));
}

Result<Postgres> Postgres::open(const std::string& address) {
  char* message = nullptr;
  PQconninfoOption* const options = PQconninfoParse(address.c_str(), &message);
  if (!options) {
    // The message may quote the address with its password: it is left out.
    PQfreemem(message);
    return error_at(
        "PostgreSQL address",
        "cannot be read; expected postgresql://USER@HOST:PORT/DATABASE, with special characters as "
        "%XX");
  }
  PQconninfoFree(options);
  const char* keys[] = {"connect_timeout", "client_encoding", "application_name", "dbname", nullptr};
  const char* values[] = {kConnectSeconds, "UTF8", "makar", address.c_str(), nullptr};
  std::unique_ptr<pg_conn, Close> connection(PQconnectdbParams(keys, values, 1));
  if (!connection) return error_of(Error::Kind::kIo, "PostgreSQL", "no memory for a connection");
  if (PQstatus(connection.get()) != CONNECTION_OK)
    return error_of(Error::Kind::kIo, postgres_address_without_password(address), "cannot connect: {}",
                    first_line(PQerrorMessage(connection.get())));
  PQsetNoticeProcessor(
      connection.get(), [](void*, const char*) {}, nullptr);
  PQsetClientEncoding(connection.get(), "UTF8");
  const std::string printable =
      printable_address(PQhost(connection.get()), PQport(connection.get()), PQdb(connection.get()));
  return Postgres(std::move(connection), printable);
}

Status Postgres::each(const std::string& sql, const SqlRow& values,
                      const std::function<void(const SqlRow&)>& f) const {
  for (const SqlValue& value : values)
    if (const auto* text = std::get_if<std::string>(&value); text && text->find('\0') != std::string::npos)
      return error_of(Error::Kind::kUnsupported, path(), "PostgreSQL cannot store a zero byte in a text");
  const BoundValues bound(values);
  PGconn* const c = connection_.get();
  if (!PQsendQueryParams(c, numbered_parameters(sql).c_str(), static_cast<int>(values.size()),
                         bound.types.data(), bound.values.data(), bound.lengths.data(), bound.formats.data(),
                         0))
    return error(nullptr);
  PQsetSingleRowMode(c);
  Status out = Done{};
  SqlRow row;
  while (const PostgresResult result{PQgetResult(c)}) {
    const ExecStatusType status = PQresultStatus(result.get());
    if (status == PGRES_SINGLE_TUPLE || status == PGRES_TUPLES_OK) {
      for (int r = 0; r < PQntuples(result.get()); ++r) {
        row.clear();
        for (int i = 0; i < PQnfields(result.get()); ++i) row.push_back(column(result.get(), r, i));
        f(row);
      }
    } else if (status != PGRES_COMMAND_OK && out.ok()) {
      out = error(result.get());
    }
  }
  return out;
}

Status Postgres::script(const std::string& sql) const {
  const PostgresResult result(PQexec(connection_.get(), sql.c_str()));
  const ExecStatusType status = PQresultStatus(result.get());
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) return error(result.get());
  return Done{};
}

bool Postgres::is_ready() const {
  return PQstatus(connection_.get()) == CONNECTION_OK &&
         PQtransactionStatus(connection_.get()) == PQTRANS_IDLE;
}

Status Postgres::reconnect() const {
  PQreset(connection_.get());
  if (is_ready()) return Done{};
  return error_of(Error::Kind::kIo, path(), "the connection is lost, and cannot be made again: {}",
                  first_line(PQerrorMessage(connection_.get())));
}

Status Postgres::begin() const {
  MAKAR_RETURN_IF_ERROR(run("BEGIN"));
  const Status locked = run("SELECT pg_advisory_xact_lock(?)", {kWriterLock});
  if (!locked.ok()) (void)run("ROLLBACK");
  return locked;
}

Status Postgres::begin_reading() const { return run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); }

Result<std::vector<std::string>> Postgres::describe(const std::string& sql) const {
  PGconn* const c = connection_.get();
  const PostgresResult prepared(PQprepare(c, "", sql.c_str(), 0, nullptr));
  if (PQresultStatus(prepared.get()) != PGRES_COMMAND_OK) return error(prepared.get());
  const PostgresResult described(PQdescribePrepared(c, ""));
  if (PQresultStatus(described.get()) != PGRES_COMMAND_OK) return error(described.get());
  std::vector<std::string> out;
  for (int i = 0; i < PQnfields(described.get()); ++i) out.emplace_back(PQfname(described.get(), i));
  return out;
}

Status Postgres::stream(const std::string& sql, std::chrono::steady_clock::time_point deadline,
                        std::vector<std::string>& columns,
                        const std::function<bool(const std::vector<Cell>&)>& f) const {
  PGconn* const c = connection_.get();
  if (!PQsendQueryParams(c, sql.c_str(), 0, nullptr, nullptr, nullptr, nullptr, 0)) return error(nullptr);
  PQsetSingleRowMode(c);
  Status out = Done{};
  bool stopped = false, timed_out = false;
  const auto stop = [&] {
    stopped = true;
    char ignored[256];
    if (PGcancel* const cancel = PQgetCancel(c)) {
      PQcancel(cancel, ignored, sizeof ignored);
      PQfreeCancel(cancel);
    }
  };
  std::vector<Cell> row;
  for (;;) {
    while (PQisBusy(c)) {
      const auto time_left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd waiting{PQsocket(c), POLLIN, 0};
      if (time_left.count() <= 0 || poll(&waiting, 1, static_cast<int>(time_left.count()) + 1) == 0) {
        if (timed_out)
          return error_of(Error::Kind::kIo, path(), "the server did not stop a cancelled statement");
        timed_out = true;
        out = error_of(Error::Kind::kLimit, path(), "the statement took too long");
        deadline += kCancelTimeout;
        stop();
      } else if (!PQconsumeInput(c)) {
        return error(nullptr);
      }
    }
    const PostgresResult result(PQgetResult(c));
    if (!result) return out;
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_SINGLE_TUPLE && status != PGRES_TUPLES_OK) {
      if (status != PGRES_COMMAND_OK && out.ok() && !stopped) out = error(result.get());
      continue;
    }
    if (columns.empty())
      for (int i = 0; i < PQnfields(result.get()); ++i) columns.emplace_back(PQfname(result.get(), i));
    for (int r = 0; r < PQntuples(result.get()) && !stopped; ++r) {
      row.clear();
      for (int i = 0; i < PQnfields(result.get()); ++i) {
        const bool null = PQgetisnull(result.get(), r, i);
        row.push_back({null ? nullptr : PQgetvalue(result.get(), r, i),
                       null ? 0 : static_cast<size_t>(PQgetlength(result.get(), r, i))});
      }
      if (!f(row)) stop();
    }
  }
}
#endif

}  // namespace makar
