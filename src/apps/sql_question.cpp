#include "apps/sql_question.h"

#include <algorithm>
#include <set>

#include "apps/prompt.h"
#include "base/quote.h"
#include "infer/context.h"
#include "llm/constrain.h"

namespace makar {
namespace {

std::string sql_instruction(const char* dialect) {
  return fmt::format(
      "You write {} queries. Answer with one SELECT statement over the tables, and nothing else.", dialect);
}
constexpr size_t kMaxCellBytes = 60;
constexpr double kRetryTemperature = 0.7;

bool is_plain(const std::string& name, bool folds_case) {
  if (folds_case && name.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") != std::string::npos) return false;
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
         std::string::npos;
}

// A literal of GBNF; names that are not plain words are quoted for SQL.
std::string literal(const std::string& name, bool folds_case) {
  const std::string text = is_plain(name, folds_case) ? name : double_quoted(name);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string alternatives(const std::set<std::string>& names, bool folds_case) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : " | ") + literal(name, folds_case);
  return out;
}

// The prompt with as many of the most similar examples as fit the context.
Result<std::vector<int64_t>> encode_question(const Engine& engine, const LanguageModel& language,
                                             const std::string& instruction, const std::string& schema,
                                             std::vector<SqlExample> examples, const std::string& question,
                                             const std::vector<SqlAttempt>& failed, int64_t answer_tokens) {
  std::string text = "Question: " + question;
  for (const SqlAttempt& attempt : failed)
    text += "\nThis query failed: " + attempt.sql + "\nError: " + attempt.error;
  const int64_t context = context_size(language.spec(), engine.options().context);
  for (;; examples.erase(examples.begin())) {
    std::vector<int64_t> out;
    if (!language.chat_template()) {
      std::string all = instruction + "\n\n" + schema;
      for (const SqlExample& one : examples)
        all += "\nQuestion: " + one.question + "\nSQL: " + one.sql + "\n";
      MAKAR_TRY(out, language.encode(all + "\n" + text + "\nSQL: "));
    } else {
      ChatInput input;
      input.messages = Json::array({{{"role", "system"}, {"content", instruction}}});
      std::string prefix = schema + "\n";
      for (const SqlExample& one : examples) {
        input.messages.push_back({{"role", "user"}, {"content", prefix + "Question: " + one.question}});
        input.messages.push_back({{"role", "assistant"}, {"content", one.sql}});
        prefix.clear();
      }
      input.messages.push_back({{"role", "user"}, {"content", prefix + text}});
      input.add_generation_prompt = true;
      MAKAR_TRY(out, language.encode_chat(input));
    }
    if (examples.empty() || context <= 0 || static_cast<int64_t>(out.size()) + answer_tokens <= context)
      return out;
  }
}

// The statement inside a code fence, or before the first ; or #.
std::string statement_of(std::string text) {
  if (const size_t fence = text.find("```"); fence != std::string::npos) {
    size_t begin = fence + 3;
    if (text.compare(begin, 3, "sql") == 0) begin += 3;
    text = text.substr(begin, text.find("```", begin) - begin);
  }
  text = text.substr(0, text.find_first_of(";#"));
  const size_t begin = text.find_first_not_of(" \n\t\r");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \n\t\r") - begin + 1);
}

}  // namespace

std::string schema_text(const std::vector<SqlTable>& tables) {
  std::string out;
  for (const SqlTable& table : tables) {
    out += table.definition + ";\n";
    if (table.sample.empty()) continue;
    out += fmt::format("-- {}\n", fmt::join(table.columns, " | "));
    for (const auto& row : table.sample) {
      std::vector<std::string> cells;
      for (const std::string& cell : row) {
        std::string text = cell.substr(0, kMaxCellBytes);
        text.resize(complete_utf8_prefix(text));
        std::replace(text.begin(), text.end(), '\n', ' ');
        cells.push_back(text);
      }
      out += fmt::format("-- {}\n", fmt::join(cells, " | "));
    }
  }
  return out;
}

std::vector<SqlExample> similar_examples(const std::vector<SqlExample>& examples, const std::string& question,
                                         int64_t max) {
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < examples.size(); ++i)
    if (examples[i].question != question)
      order.emplace_back(-word_overlap(examples[i].question, question), i);
  std::sort(order.begin(), order.end());
  if (order.size() > static_cast<size_t>(max)) order.resize(static_cast<size_t>(max));
  std::vector<SqlExample> out;
  for (size_t i = order.size(); i > 0; --i) out.push_back(examples[order[i - 1].second]);
  return out;
}

std::string select_grammar(const std::vector<SqlTable>& tables) {
  std::set<std::string> names, columns;
  std::string qualified;  // the columns of each table after its name
  const bool folds_case = !tables.empty() && tables.front().folds_case;
  for (const SqlTable& table : tables) {
    names.insert(table.name);
    columns.insert(table.columns.begin(), table.columns.end());
    const std::set<std::string> table_columns(table.columns.begin(), table.columns.end());
    if (!table_columns.empty())
      qualified += fmt::format(" | {} \".\" ({})", literal(table.name, folds_case),
                               alternatives(table_columns, folds_case));
  }
  return "root ::= select\n"
         "select ::= \"SELECT \" (\"DISTINCT \")? item (\", \" item)* \" FROM \" source join* (\" WHERE \" "
         "condition)? "
         "(\" GROUP BY \" value (\", \" value)*)? (\" HAVING \" condition)? (\" ORDER BY \" order (\", \" "
         "order)*)? "
         "(\" LIMIT \" integer)?\n"
         "item ::= \"*\" | value (\" AS \" word)?\n"
         "source ::= table (\" AS \" alias)?\n"
         "join ::= (\" JOIN \" | \" LEFT JOIN \") source \" ON \" condition\n"
         "order ::= (value | word) (\" ASC\" | \" DESC\")?\n"
         "condition ::= test ((\" AND \" | \" OR \") test)*\n"
         "test ::= (\"NOT \")? (value compare value | value \" IS NULL\" | value \" IS NOT NULL\" | value \" "
         "BETWEEN \" "
         "value \" AND \" value | value (\" NOT\")? \" IN (\" (select | value (\", \" value)*) \")\" | \"(\" "
         "condition "
         "\")\")\n"
         "compare ::= \" = \" | \" <> \" | \" < \" | \" <= \" | \" > \" | \" >= \" | \" LIKE \"\n"
         "value ::= operand ((\" + \" | \" - \" | \" * \" | \" / \") operand)*\n"
         "operand ::= column | function | number | string | \"(\" (select | value) \")\"\n"
         "function ::= (\"COUNT\" | \"SUM\" | \"AVG\" | \"MIN\" | \"MAX\") \"(\" (\"DISTINCT \")? (\"*\" | "
         "value) \")\" | "
         "(\"LOWER\" | \"UPPER\" | \"LENGTH\" | \"ABS\" | \"ROUND\") \"(\" value (\", \" integer)? \")\"\n"
         "column ::= name | alias \".\" name" +
         qualified +
         "\nalias ::= [A-Za-z] [A-Za-z0-9_]{0,30}\n"
         "word ::= [a-z] [a-z0-9_]{0,30}\n"
         "number ::= \"-\"? [0-9]{1,15} (\".\" [0-9]{1,9})?\n"
         "integer ::= [1-9] [0-9]{0,5}\n"
         "string ::= \"'\" ([^'\\n] | \"''\"){0,100} \"'\"\n"
         "table ::= " +
         alternatives(names, folds_case) + "\nname ::= " + alternatives(columns, folds_case) + "\n";
}

Result<SqlAnswer> answer_with_sql(Engine& engine, const LanguageModel& language, const SqlReader& database,
                                  const std::string& question, const SqlQuestionOptions& options) {
  MAKAR_TRY(const auto tables, database.tables());
  if (tables.empty()) return error_at("database", "has no tables");
  const std::string schema = schema_text(tables);
  std::optional<Constrainer> constrainer;
  std::optional<Grammar> grammar;
  if (options.constrain) {
    MAKAR_TRY(constrainer, Constrainer::of(language));
    MAKAR_TRY(grammar, Grammar::from_gbnf(select_grammar(tables)));
  }
  const auto examples = similar_examples(options.examples, question, options.shots);
  SqlAnswer out;
  bool repeated = false;
  for (int64_t i = 0; i < options.attempts && !out.answered; ++i) {
    MAKAR_TRY(const auto prompt,
              encode_question(engine, language, sql_instruction(database.dialect()), schema, examples,
                              question, out.attempts, options.generation.max_new_tokens));
    TextGenerationOptions generation = options.generation;
    if (repeated && generation.sampler.temperature == 0) generation.sampler.temperature = kRetryTemperature;
    if (repeated) generation.sampler.seed += static_cast<uint64_t>(i);
    generation.stop.insert(generation.stop.end(), {";", "#"});
    if (grammar) {
      MAKAR_TRY(generation.constraint, constrainer->constrain(*grammar));
    }
    MAKAR_TRY(const TextGenerationResult reply, generate_text(engine, language, prompt, generation));
    SqlAttempt attempt{statement_of(reply.answers.front().text), ""};
    auto result = database.run(attempt.sql, options.limits);
    if (result.ok()) {
      out.result = std::move(*result);
      out.answered = true;
    } else {
      attempt.error = result.error().message;
      repeated = repeated || std::any_of(out.attempts.begin(), out.attempts.end(),
                                         [&](const SqlAttempt& other) { return other.sql == attempt.sql; });
    }
    out.attempts.push_back(std::move(attempt));
  }
  return out;
}

}  // namespace makar
