// Rewards that execute what an answer contains: code with the record's tests, in the sandbox of makar eval; a
// query on the record's database.
#pragma once
#include "train/reward_rules.h"

namespace makar {

// tests[=python|javascript|cpp]: 1 if the code of the answer runs to its end together with the record's
// `tests` (a text or a list; also `test`, `test_list`), else 0. The code is the first ``` block, or the whole
// answer. The record's `test_setup_code` precedes it; with `entry_point`, check(entry_point) follows the
// tests (HumanEval). Error: the sandbox is not available, or the smallest program of the language fails in
// it.
Result<RewardTerm> tests_reward(const RewardTermSpec& spec);

// sql[=DATABASE]: 1 if the query of the answer returns the rows of the record's `sql` (or `query`), else 0.
// The database is DATABASE, the record's `database` (a SQLite file) or one made by its `schema` (a script).
// The record's query is run once. Random numbers and the current time are errors in SQLite. Errors: an
// address with a password; a record's query that does not run or returns more rows than SqlLimits allow.
Result<RewardTerm> sql_reward(const RewardTermSpec& spec);

}  // namespace makar
