// The compiler behind json_schema.h: a schema to rules. References and merging: schema_compiler.cpp. Values:
// schema_values.cpp. Arrays and objects: schema_containers.cpp.
#pragma once
#include <map>
#include <optional>
#include <unordered_map>

#include "infer/grammar/json_schema.h"
#include "infer/grammar/json_text.h"

namespace makar::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& root, const Limits& limits, WorkBudget& work)
      : root_(root), limits_(limits), work_(work), text_(out_.rules) {}
  Result<SchemaRules> run();

 private:
  static constexpr int64_t kMaxCount = 2000;  // maximum count of items or characters that is enforced
  static constexpr int kMaxDepth = 100;       // nesting of schemas, including followed references
  // Rules per property: its pair, what may follow it, and what may replace it.
  static constexpr size_t kPropertyRules = 3;

  // Adds a constraint to not_enforced.
  void note(const std::string& path, const std::string& what);
  Error too_large(const std::string& path) const {
    return error_of(Error::Kind::kLimit, "schema " + path,
                    "schemas are nested deeper than {} or need more than {} nodes; simplify the schema",
                    kMaxDepth, limits_.nodes);
  }
  Error schema_error(const std::string& path, const std::string& what) const {
    return error_at("schema " + path, "{}", what);
  }

  Result<ExprPtr> compile(const Json& schema, const std::string& path, int depth);
  Result<ExprPtr> reference(const Json& schema, const std::string& path, int depth);
  Result<const Json*> resolve(const std::string& target, const std::string& path);
  const Json* child(const Json& parent, const std::string& key);
  Result<ExprPtr> all_of(const Json& schema, const std::string& path, int depth);
  Result<ExprPtr> any_of(const Json& schema, const char* keyword, const std::string& path, int depth);

  Result<ExprPtr> compile_value(const Json& schema, const std::string& path, int depth);
  void note_unknown(const Json& schema, const std::string& path);
  Result<ExprPtr> compile_type(const std::string& type, const Json& schema, const std::string& path,
                               int depth);
  Result<ExprPtr> string(const Json& schema, const std::string& path);
  Result<ExprPtr> number(bool integer, const Json& schema, const std::string& path);

  Result<std::optional<int64_t>> count(const Json& schema, const char* keyword, const std::string& path);
  Result<ExprPtr> array(const Json& schema, const std::string& path, int depth);
  Result<ExprPtr> object(const Json& schema, const std::string& path, int depth);
  ExprPtr as_rule(std::string name, ExprPtr body);

  const Json kAny = true, kNone = Json::array();  // the schema of any value; an empty list
  const Json& root_;
  const Limits& limits_;
  WorkBudget& work_;
  SchemaRules out_;
  JsonText text_;
  std::map<std::string, int> references_;  // rule by $ref
  // Key index of large objects that references traverse.
  std::unordered_map<const Json*, std::unordered_map<std::string, const Json*>> children_;
  size_t schemas_ = 0;  // compiled so far
};

}  // namespace makar::grammar
