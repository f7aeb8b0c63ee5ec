#include "cli/executed_rewards.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "apps/sql_score.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "base/thread_pool.h"
#include "base/trim.h"
#include "data/schema.h"
#include "database/postgres.h"
#include "eval/filter.h"
#include "eval/sandbox.h"

namespace makar {
namespace {

constexpr size_t kMaxTestBytes = size_t{1} << 20;

// A text, or the lines of a list of texts; "" if the field is missing or of another type.
std::string text_or_lines(const Json& record, std::initializer_list<const char*> names) {
  const Json* found = field(record, names);
  if (!found) return "";
  if (found->is_string()) return found->get<std::string>();
  std::string out;
  if (found->is_array())
    for (const Json& line : *found) {
      if (!line.is_string()) return "";
      out += line.get<std::string>() + "\n";
    }
  return out;
}

// What follows and what precedes the answer's code.
struct CodeTests {
  std::string setup, tests;
};

Result<CodeTests> tests_of(const Json& record) {
  CodeTests out{text_or_lines(record, {"test_setup_code"}),
                text_or_lines(record, {"tests", "test", "test_list"})};
  if (trimmed(out.tests).empty())
    return error_at("reward",
                    "the record of a prompt has no 'tests' to run with an answer (a text or a list "
                    "of texts)");
  if (const Json* entry = field(record, {"entry_point"})) {
    if (!entry->is_string()) return error_at("reward", "'entry_point' of a record is not a text");
    out.tests += "\ncheck(" + entry->get<std::string>() + ")\n";
  }
  if (out.setup.size() + out.tests.size() > kMaxTestBytes)
    return error_at("reward", "the tests of a record have more than {} bytes", kMaxTestBytes);
  return out;
}

Result<double> passes_tests(const std::string& language, const RewardInput& answer) {
  MAKAR_TRY(const CodeTests tests, tests_of(answer.record));
  const std::string program = tests.setup + "\n" + code_block(answer.text) + "\n" + tests.tests + "\n";
  MAKAR_TRY(const ProgramOutcome outcome, run_program(language, program));
  return outcome.passed ? 1.0 : 0.0;
}

// What a database is opened from: a path or an address, or a script that makes it.
struct SqlSource {
  bool is_script = false;
  std::string text;
  auto operator<=>(const SqlSource&) const = default;
};

// The databases of a term, opened on first use.
class Databases {
 public:
  explicit Databases(std::string path) : path_(std::move(path)) {}
  Result<SqlSource> source_of(const Json& record) const {
    if (!path_.empty()) return SqlSource{false, path_};
    const Json *file = field(record, {"database"}), *schema = field(record, {"schema"});
    if (file && file->is_string()) {
      const auto& path = file->get_ref<const std::string&>();
      if (is_postgres_address(path))
        return error_at("reward",
                        "'database' of a record must be a SQLite file; name a server with sql=DATABASE");
      return SqlSource{false, path};
    }
    if (schema && schema->is_string()) return SqlSource{true, schema->get<std::string>()};
    return error_at(
        "reward",
        "the record of a prompt has no 'database' (a SQLite file) or 'schema' (statements that make "
        "it); or name one for all records with sql=DATABASE");
  }
  Result<const SqlReader*> open(const SqlSource& source) {
    constexpr size_t kMaxOpen = 32;
    if (const auto it = open_.find(source); it != open_.end()) return &it->second;
    if (open_.size() >= kMaxOpen) open_.clear();
    MAKAR_TRY(SqlReader reader,
              source.is_script ? SqlReader::from_script(source.text, true) : SqlReader::open(source.text));
    reader.require_repeatable();
    if (!source.is_script) paths_.insert(source.text);
    return &open_.emplace(source, std::move(reader)).first->second;
  }
  // The rows of a record's query, which is run once.
  Result<ExpectedRows> expected(const SqlSource& source, const std::string& query) {
    constexpr size_t kMaxReferences = size_t{1} << 18;
    const std::string key =
        (source.is_script ? "script " : "path ") + sha256_of(source.text) + sha256_of(query);
    if (const auto it = expected_.find(key); it != expected_.end()) return it->second;
    MAKAR_TRY(const SqlReader* database, open(source));
    MAKAR_TRY(ExpectedRows rows, expected_rows(*database, query));
    if (expected_.size() >= kMaxReferences) expected_.clear();
    return expected_.emplace(key, std::move(rows)).first->second;
  }
  // The SQLite files opened so far, with their write-ahead logs.
  std::vector<std::string> files() const {
    std::vector<std::string> out;
    for (const std::string& path : paths_) {
      if (is_postgres_address(path)) continue;
      out.push_back(path);
      std::error_code failed;
      const std::string log = path + "-wal";
      if (std::filesystem::file_size(log, failed) > 0 && !failed) out.push_back(log);
    }
    return out;
  }

 private:
  std::string path_;
  std::map<SqlSource, SqlReader> open_;
  std::map<std::string, ExpectedRows> expected_;
  std::set<std::string> paths_;  // opened so far
};

Result<std::string> reference_query(const Json& record) {
  const Json* query = field(record, {"sql", "query"});
  if (!query || !query->is_string() || trimmed(query->get_ref<const std::string&>()).empty())
    return error_at("reward", "the record of a prompt has no 'sql', the query whose rows are expected");
  return query->get<std::string>();
}

Result<double> returns_expected_rows(Databases& databases, const RewardInput& answer) {
  MAKAR_TRY(const std::string reference, reference_query(answer.record));
  MAKAR_TRY(const SqlSource source, databases.source_of(answer.record));
  MAKAR_TRY(const ExpectedRows expected, databases.expected(source, reference));
  MAKAR_TRY(const SqlReader* database, databases.open(source));
  MAKAR_TRY(const bool correct, returns_rows(*database, code_block(answer.text), expected));
  return correct ? 1.0 : 0.0;
}

// The last turn of a prompt, for messages.
std::string prompt_place(const Json& prompt) {
  const Json content = prompt.is_array() && !prompt.empty() ? prompt.back().value("content", Json()) : Json();
  return "the prompt " + quote(content.is_string() ? content.get<std::string>() : dump(content));
}

}  // namespace

Result<RewardTerm> tests_reward(const RewardTermSpec& spec) {
  const std::string language = spec.argument.empty() ? "python" : spec.argument;
  const auto known = program_languages();
  if (std::find(known.begin(), known.end(), language) == known.end())
    return error_at("reward", "tests cannot run {}{}; expected one of: {}", quote(language),
                    did_you_mean(language, known), fmt::join(known, ", "));
  MAKAR_RETURN_IF_ERROR(check_language(language));
  const auto score = [language](std::span<const RewardInput> answers,
                                Device&) -> Result<std::vector<double>> {
    // More would take too much memory: each program may use 2 GiB.
    constexpr int kProgramsAtOnce = 4;
    std::vector<Result<double>> results(answers.size(), 0.0);
    ThreadPool pool(kProgramsAtOnce);
    pool.run(static_cast<int64_t>(answers.size()), [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      results[at] = passes_tests(language, answers[at]);
    });
    std::vector<double> out;
    for (const auto& result : results) {
      MAKAR_TRY(const double reward, result);
      out.push_back(reward);
    }
    return out;
  };
  return RewardTerm{spec.name, spec.weight, score, [](const Json& record) -> Status {
                      MAKAR_RETURN_IF_ERROR(tests_of(record));
                      return Done{};
                    }};
}

Result<RewardTerm> sql_reward(const RewardTermSpec& spec) {
  // The words of --reward are stored in the run's folder.
  if (is_postgres_address(spec.argument) && has_postgres_password(spec.argument))
    return error_at("reward", "the address of {} has a password; set PGPASSWORD or use ~/.pgpass instead",
                    postgres_address_without_password(spec.argument));
  const auto databases = std::make_shared<Databases>(spec.argument);
  if (!spec.argument.empty()) MAKAR_RETURN_IF_ERROR(databases->open({false, spec.argument}));
  const auto score = [databases](std::span<const RewardInput> answers,
                                 Device&) -> Result<std::vector<double>> {
    std::vector<double> out;
    for (const RewardInput& answer : answers) {
      const auto reward = returns_expected_rows(*databases, answer);
      if (!reward.ok()) return reward.error().in(prompt_place(answer.prompt)).in("reward");
      out.push_back(*reward);
    }
    return out;
  };
  const auto check_record = [databases](const Json& record) -> Status {
    MAKAR_TRY(const std::string reference, reference_query(record));
    MAKAR_TRY(const SqlSource source, databases->source_of(record));
    MAKAR_RETURN_IF_ERROR(databases->open(source));
    const auto expected = databases->expected(source, reference);
    if (expected.ok()) return Done{};
    return error_at("reward", "'sql' of a record cannot be used: {}", expected.error().message);
  };
  return RewardTerm{spec.name, spec.weight, score, check_record, [databases] { return databases->files(); }};
}

}  // namespace makar
