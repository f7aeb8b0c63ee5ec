// makar sql: a question about a database, answered by a query that cannot change it.
#include <fmt/format.h>

#include <filesystem>

#include "apps/sql_question.h"
#include "apps/sql_score.h"
#include "base/file.h"
#include "base/progress.h"
#include "base/utf8.h"
#include "cli/generation_flags.h"
#include "cli/json_lines.h"
#include "cli/run.h"
#include "cli/text_io.h"
#include "cli/with_engine.h"

namespace makar {
namespace {

struct SqlCommand {
  ModelOptions model;
  GenerationFlags flags;
  SqlQuestionOptions question;
  std::string database, query, table, eval, predictions, examples;
  int64_t limit = 0;
  std::vector<std::string> words;
  bool json = false, no_grammar = false;
};

Json result_json(const SqlResult& result) {
  return {{"columns", result.columns}, {"rows", result.rows}, {"truncated", result.truncated}};
}

// Columns as wide as their longest cell, at most 40 characters.
std::string result_table(const SqlResult& result) {
  constexpr size_t kMaxCellCharacters = 40;
  std::vector<std::vector<std::string>> cells = {result.columns};
  cells.insert(cells.end(), result.rows.begin(), result.rows.end());
  std::vector<size_t> widths(result.columns.size(), 0);
  for (auto& row : cells)
    for (size_t i = 0; i < row.size(); ++i) {
      for (char& c : row[i])
        if (c == '\n' || c == '\r' || c == '\t') c = ' ';
      if (count_code_points(row[i]) > kMaxCellCharacters) {
        size_t at = 0;
        for (size_t n = 0; n + 3 < kMaxCellCharacters; ++n) next_code(row[i], at);
        row[i] = row[i].substr(0, at) + "...";
      }
      widths[i] = std::max(widths[i], count_code_points(row[i]));
    }
  std::string out;
  for (size_t r = 0; r < cells.size(); ++r) {
    for (size_t i = 0; i < cells[r].size(); ++i) {
      out += (i ? " | " : "") + cells[r][i];
      if (i + 1 < cells[r].size()) out += std::string(widths[i] - count_code_points(cells[r][i]), ' ');
    }
    out += '\n';
    if (r == 0)
      for (size_t i = 0; i < widths.size(); ++i) out += (i ? "-+-" : "") + std::string(widths[i], '-');
    if (r == 0) out += '\n';
  }
  return out +
         fmt::format("{} rows{}\n", result.rows.size(), result.truncated ? ", and more (--max-rows)" : "");
}

Result<SqlReader> open_database(const SqlCommand& c) {
  if (!c.database.ends_with(".csv")) return SqlReader::open(c.database);
  return SqlReader::from_csv(c.database,
                             c.table.empty() ? std::filesystem::path(c.database).stem().string() : c.table);
}

// A question with its reference statement, and the predicted statement to compare with that.
struct SqlQuestion {
  std::string question, reference, predicted;
};

// {"question", "sql"} per line.
Result<std::vector<SqlExample>> read_sql_examples(const std::string& path) {
  std::vector<SqlExample> out;
  MAKAR_RETURN_IF_ERROR(each_json_line(path, [&](const Json& one, const std::string& place) -> Status {
    const Json question = one.is_object() ? one.value("question", Json()) : Json();
    const Json sql = one.is_object() ? one.value("sql", one.value("query", Json())) : Json();
    if (!question.is_string() || !sql.is_string())
      return error_at(place, "expected {{\"question\", \"sql\"}}");
    out.push_back({question, sql});
    return Done{};
  }));
  if (out.empty()) return error_at(path, "has no questions");
  return out;
}

Result<std::vector<SqlQuestion>> read_questions(const SqlCommand& c) {
  std::vector<std::string> predicted;
  if (!c.predictions.empty()) {
    MAKAR_TRY(const std::string lines, read_file(c.predictions));
    for (size_t at = 0; at < lines.size();) {
      const size_t end = std::min(lines.find('\n', at), lines.size());
      predicted.push_back(lines.substr(at, end - at));
      at = end + 1;
    }
  }
  MAKAR_TRY(auto examples, read_sql_examples(c.eval));
  if (c.limit > 0 && static_cast<int64_t>(examples.size()) > c.limit)
    examples.resize(static_cast<size_t>(c.limit));
  std::vector<SqlQuestion> out;
  for (SqlExample& one : examples) out.push_back({std::move(one.question), std::move(one.sql), ""});
  if (!c.predictions.empty() && predicted.size() < out.size())
    return error_at(c.predictions, "has {} lines for {} questions", predicted.size(), out.size());
  for (size_t i = 0; i < out.size() && i < predicted.size(); ++i) out[i].predicted = predicted[i];
  return out;
}

// Prints the scores of the predicted statements; returns the exit code.
int print_scores(const SqlCommand& c, const SqlReader& database, const std::vector<SqlQuestion>& examples) {
  int64_t runs = 0, execution = 0, schema = 0, broken_references = 0;
  for (const SqlQuestion& one : examples) {
    const auto score = score_sql(database, one.predicted, one.reference, c.question.limits);
    if (!score.ok()) {
      ++broken_references;
      continue;
    }
    runs += score->runs, execution += score->execution, schema += score->schema;
  }
  const int64_t counted = static_cast<int64_t>(examples.size()) - broken_references;
  const auto share = [&](int64_t n) {
    return counted == 0 ? 0 : static_cast<double>(n) / static_cast<double>(counted);
  };
  const bool reads_schema = database.reads("SELECT 1").ok();
  if (c.json)
    return print_out(Json{{"questions", counted},
                          {"execution_accuracy", share(execution)},
                          {"schema_match", reads_schema ? Json(share(schema)) : Json()},
                          {"valid", share(runs)},
                          {"broken_references", broken_references}}
                         .dump() +
                     "\n")
               ? 0
               : 1;
  return print_out(fmt::format(
             "questions           {}\nexecution accuracy  {:.4f}\nschema match        {}\n"
             "valid               {:.4f}\n{}",
             counted, share(execution), reads_schema ? fmt::format("{:.4f}", share(schema)) : "(SQLite only)",
             share(runs),
             broken_references
                 ? fmt::format(
                       "{} references do not run, or return more than --max-rows; they are not counted\n",
                       broken_references)
                 : ""))
             ? 0
             : 1;
}

int evaluate_model(SqlCommand& c, const SqlReader& database, Engine& engine, const LanguageModel& language) {
  auto examples = read_questions(c);
  if (!examples.ok()) return report(examples.error());
  {
    Progress progress;
    for (size_t i = 0; i < examples->size(); ++i) {
      progress.show("questions", i, examples->size());
      SqlQuestion& one = (*examples)[i];
      const auto answer = answer_with_sql(engine, language, database, one.question, c.question);
      if (!answer.ok()) return report(answer.error());
      if (!answer->attempts.empty()) one.predicted = answer->attempts.back().sql;
    }
    progress.show("questions", examples->size(), examples->size());
  }
  return print_scores(c, database, *examples);
}

int ask_model(SqlCommand& c, const SqlReader& database, const std::string& question, Engine& engine,
              const LanguageModel& language) {
  c.question.generation = c.flags.generation;
  c.question.generation.fit = true;
  c.question.constrain = !c.no_grammar;
  if (!c.eval.empty()) return evaluate_model(c, database, engine, language);
  const auto answer = answer_with_sql(engine, language, database, question, c.question);
  if (!answer.ok()) return report(answer.error());
  if (c.json) {
    Json attempts = Json::array();
    for (const SqlAttempt& a : answer->attempts) attempts.push_back({{"sql", a.sql}, {"error", a.error}});
    Json out = {{"question", question}, {"answered", answer->answered}, {"attempts", std::move(attempts)}};
    if (answer->answered)
      out["sql"] = answer->attempts.back().sql, out["result"] = result_json(answer->result);
    return print_out(out.dump() + "\n") && answer->answered ? 0 : 1;
  }
  for (const SqlAttempt& a : answer->attempts)
    if (!print_out(a.sql + (a.error.empty() ? "\n\n" : "\n  failed: " + a.error + "\n"))) return 1;
  if (!answer->answered)
    return report(error_at("SQL", "no query ran in {} attempts", answer->attempts.size()));
  return print_out(result_table(answer->result)) ? 0 : 1;
}

void declare_sql(Options& options, SqlCommand& c) {
  options
      .positional("DATABASE", &c.database,
                  "a SQLite file, a CSV file, or a PostgreSQL address (postgresql://...)")
      .required = true;
  options.positional("QUESTION", &c.words, "the question").required = false;
  options.group("Query");
  options.add("--query", &c.query, "run this statement instead of asking a model", "SQL");
  options.add("--table", &c.table, "the name of the table of a CSV file; its file name if not set", "NAME");
  options.add("--attempts", &c.question.attempts,
              "maximum number of queries; each retry gets the errors of the previous ones", "N");
  options.add(
      "--examples", &c.examples,
      "answered questions, {\"question\", \"sql\"} per line; those most similar to the question go into "
      "the prompt",
      "FILE");
  options.add("--shots", &c.question.shots, "maximum number of these examples in the prompt", "N");
  options.add("--no-grammar --free", &c.no_grammar, "do not restrict the model to the grammar of SELECT");
  options.add("--max-rows", &c.question.limits.rows, "maximum number of rows", "N");
  options.add("--max-seconds", &c.question.limits.seconds, "time limit of a query in seconds", "S");
  options.group("Evaluation");
  options.add("--eval", &c.eval,
              "measure on questions with reference statements, {\"question\", \"sql\"} per line: execution "
              "accuracy and schema match",
              "FILE");
  options.add("--predictions", &c.predictions, "compare these statements, one per line, instead of a model's",
              "FILE");
  options.add("--limit", &c.limit, "only the first N questions; 0 for all", "N");
  c.model.declare_conditional(options, "; not needed with --query or --predictions");
  declare_device(options, c.model.device);
  c.model.declare_chat(options);
  options.group("Output");
  options.add("--json", &c.json, "print one JSON object");
  c.flags.declare(options);
}

// Errors are bad usage.
Status check_sql(const Options& options, SqlCommand& c) {
  MAKAR_RETURN_IF_ERROR(c.flags.check(options));
  const SqlQuestionOptions& question = c.question;
  if (question.attempts < 1 || question.attempts > 20)
    return error_at("--attempts", "must be from 1 to 20, got {}", question.attempts);
  if (question.shots < 0 || question.shots > 100)
    return error_at("--shots", "must be from 0 to 100, got {}", question.shots);
  if (question.limits.rows < 1 || question.limits.rows > 1000000)
    return error_at("--max-rows", "must be from 1 to 1000000, got {}", question.limits.rows);
  if (!(question.limits.seconds > 0 && question.limits.seconds <= 3600))
    return error_at("--max-seconds", "must be above 0 and at most 3600, got {}", question.limits.seconds);
  if (!c.eval.empty() && (!c.query.empty() || !c.words.empty()))
    return error_at("--eval", "takes its questions from the file; remove the question or --query");
  if (c.eval.empty() && (!c.predictions.empty() || c.limit != 0))
    return error_at("--eval", "is required by --predictions and --limit");
  if (c.limit < 0) return error_at("--limit", "must be 0 or more, got {}", c.limit);
  if (c.eval.empty() && c.query.empty() == c.words.empty())
    return error_at("sql", "expected a question, or --query SQL");
  if (c.query.empty() && c.model.model.empty() && c.predictions.empty())
    return error_at("--model",
                    "is required to answer a question; --query SQL runs a statement without a model");
  return Done{};
}

}  // namespace

int run_sql(const std::vector<std::string>& arguments) {
  SqlCommand c;
  Options options(
      "sql",
      "Answer a question about a SQLite or PostgreSQL database or a CSV file: a model writes a SELECT "
      "statement, which is shown and run. It cannot change the database.",
      "makar sql sales.db -m MODEL \"which products sold the most?\"");
  declare_sql(options, c);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status checked = check_sql(options, c); !checked.ok()) return report(checked.error()), 2;
  if (!c.query.empty() && !c.examples.empty()) warn("--examples has no effect with --query");
  if (c.query.empty() && !c.examples.empty()) {
    auto read = read_sql_examples(c.examples);
    if (!read.ok()) return report(read.error());
    c.question.examples = std::move(*read);
  }
  const auto database = open_database(c);
  if (!database.ok()) return report(database.error());
  if (!c.predictions.empty()) {
    const auto examples = read_questions(c);
    return examples.ok() ? print_scores(c, *database, *examples) : report(examples.error());
  }
  if (c.query.empty())
    return with_engine(c.model, c.flags, [&](Engine& engine, const LanguageModel& language) {
      return ask_model(c, *database, fmt::format("{}", fmt::join(c.words, " ")), engine, language);
    });
  const auto result = database->run(c.query, c.question.limits);
  if (!result.ok()) return report(result.error());
  return print_out(c.json ? result_json(*result).dump() + "\n" : result_table(*result)) ? 0 : 1;
}

}  // namespace makar
