// Answers a question with SQL: the prompt has the schema, a grammar restricts the model to SELECT over its
// tables, and the model repairs a statement that fails.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "apps/sql_reader.h"
#include "llm/text_generation.h"

namespace makar {

struct SqlExample {
  std::string question, sql;
};

struct SqlQuestionOptions {
  int64_t attempts = 3;
  std::vector<SqlExample> examples;  // answered questions; the most similar ones are in the prompt
  int64_t shots = 4;                 // how many, if they fit the context
  bool constrain = true;             // only statements of the grammar
  SqlLimits limits;
  TextGenerationOptions generation;
};

struct SqlAttempt {
  std::string sql, error;  // error: "" if it ran
};
struct SqlAnswer {
  std::vector<SqlAttempt> attempts;  // the last one is the answer, if it ran
  SqlResult result;
  bool answered = false;
};

// The schema and sample rows as a prompt shows them.
std::string schema_text(const std::vector<SqlTable>& tables);
// GBNF: one SELECT over the tables and columns, without a semicolon.
std::string select_grammar(const std::vector<SqlTable>& tables);

// The examples whose words overlap most with those of the question, most similar last; never the question
// itself.
std::vector<SqlExample> similar_examples(const std::vector<SqlExample>& examples, const std::string& question,
                                         int64_t max);

// The prompt of a retry has the errors of the earlier queries. Once the model repeats a query, later
// ones are sampled.
Result<SqlAnswer> answer_with_sql(Engine& engine, const LanguageModel& language, const SqlReader& database,
                                  const std::string& question, const SqlQuestionOptions& options);

}  // namespace makar
