// makar sql: a question about a database, answered by a query that cannot change it.
#include <fmt/format.h>

#include <filesystem>

#include "apps/sql_question.h"
#include "base/utf8.h"
#include "cli/model_options.h"
#include "cli/run.h"
#include "cli/tokenizer_options.h"

namespace makar {
namespace {

struct SqlCommand {
  ModelOptions model;
  GenerationFlags flags;
  SqlQuestionOptions question;
  std::string database, query, table;
  std::vector<std::string> words;
  bool json = false, free = false;
};

Json result_json(const SqlResult& result) {
  return {{"columns", result.columns}, {"rows", result.rows}, {"more", result.more}};
}

// Columns as wide as their longest cell, at most 40 characters.
std::string result_table(const SqlResult& result) {
  constexpr size_t kWidest = 40;
  std::vector<std::vector<std::string>> cells = {result.columns};
  cells.insert(cells.end(), result.rows.begin(), result.rows.end());
  std::vector<size_t> widths(result.columns.size(), 0);
  for (auto& row : cells)
    for (size_t i = 0; i < row.size(); ++i) {
      for (char& c : row[i])
        if (c == '\n' || c == '\r' || c == '\t') c = ' ';
      if (count_code_points(row[i]) > kWidest) {
        size_t at = 0;
        for (size_t n = 0; n + 3 < kWidest; ++n) next_code(row[i], at);
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
  return out + fmt::format("{} rows{}\n", result.rows.size(), result.more ? ", and more (--max-rows)" : "");
}

Result<SqlReader> open_database(const SqlCommand& c) {
  if (!c.database.ends_with(".csv")) return SqlReader::open(c.database);
  return SqlReader::from_csv(c.database,
                             c.table.empty() ? std::filesystem::path(c.database).stem().string() : c.table);
}

int ask_model(SqlCommand& c, const SqlReader& database, const std::string& question) {
  const auto compute = c.model.open_device();
  if (!compute.ok()) return report(compute.error());
  Device& device = **compute;
  const auto budget = c.flags.engine.budget();
  if (!budget.ok()) return report(budget.error()), 2;
  const auto language = open_model(c.model, device, *budget);
  if (!language.ok()) return report(language.error());
  if (!language->spec().decoder || language->spec().encoder || !language->has_tokenizer())
    return report(error_of(Error::Kind::kUnsupported, c.model.model,
                           "expected a decoder-only language model with a tokenizer"));
  if (const Status ready = c.flags.prepare(*language, device); !ready.ok()) return report(ready.error());
  const auto engine_options = c.flags.engine_options(language->model());
  if (!engine_options.ok()) return report(engine_options.error());
  Engine engine(language->model(), device, *engine_options);
  c.question.generation = c.flags.generation;
  c.question.generation.fit = true;
  c.question.constrain = !c.free;
  const auto answer = answer_with_sql(engine, *language, database, question, c.question);
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

}  // namespace

int run_sql(const std::vector<std::string>& arguments) {
  SqlCommand c;
  Options options("sql",
                  "Answers a question about a SQLite database or a CSV file: a model writes a SELECT "
                  "statement, which is shown "
                  "and run. It cannot change the database.",
                  "makar sql sales.db -m MODEL \"which products sold the most?\"");
  options.positional("DATABASE", &c.database, "a SQLite file, or a CSV file").required = true;
  options.positional("QUESTION", &c.words, "the question").required = false;
  options.group("Query");
  options.add("--query", &c.query, "run this statement instead of asking a model", "SQL");
  options.add("--table", &c.table, "the name of the table of a CSV file; its file name if not set", "NAME");
  options.add("--attempts", &c.question.attempts,
              "queries that are tried; each sees the errors of those before", "N");
  options.add("--free", &c.free, "do not restrict the model to the grammar of SELECT");
  options.add("--max-rows", &c.question.limits.rows, "rows that are printed at most", "N");
  options.add("--max-seconds", &c.question.limits.seconds, "time of a query", "S");
  options.group("Model");
  options.add("-m --model", &c.model.model, "the model that writes the query; not needed with --query",
              "MODEL");
  options.add("--lora", &c.model.adapters,
              "folder of a PEFT adapter to apply; :WEIGHT scales it; repeat to add several", "DIR[:WEIGHT]");
  declare_threads(options, c.model.threads);
  declare_device(options, c.model.device);
  c.model.declare_chat(options);
  options.group("Output");
  options.add("--json", &c.json, "print one JSON object");
  c.flags.declare(options);
  if (const auto code = parse_or_exit(options, arguments)) return *code;
  if (const Status checked = c.flags.check(options); !checked.ok()) return report(checked.error()), 2;
  if (c.question.attempts < 1 || c.question.attempts > 20)
    return report(error_at("--attempts", "must be from 1 to 20, got {}", c.question.attempts)), 2;
  if (c.question.limits.rows < 1 || c.question.limits.rows > 1000000)
    return report(error_at("--max-rows", "must be from 1 to 1000000, got {}", c.question.limits.rows)), 2;
  if (!(c.question.limits.seconds > 0 && c.question.limits.seconds <= 3600))
    return report(error_at("--max-seconds", "must be above 0 and at most 3600, got {}",
                           c.question.limits.seconds)),
           2;
  if (c.query.empty() == c.words.empty())
    return report(error_at("sql", "expected a question, or --query SQL")), 2;
  if (c.query.empty() && c.model.model.empty())
    return report(error_at("--model", "is missing; a question needs -m MODEL, a statement --query SQL")), 2;
  const auto database = open_database(c);
  if (!database.ok()) return report(database.error());
  if (c.query.empty()) return ask_model(c, *database, fmt::format("{}", fmt::join(c.words, " ")));
  const auto result = database->run(c.query, c.question.limits);
  if (!result.ok()) return report(result.error());
  return print_out(c.json ? result_json(*result).dump() + "\n" : result_table(*result)) ? 0 : 1;
}

}  // namespace makar
