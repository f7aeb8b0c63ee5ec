// The compiler behind json_schema.h: a schema to rules, part by part. What a schema refers to and how several
// are one: schema_compiler.cpp. Values: schema_values.cpp. Arrays and objects: schema_containers.cpp.
#pragma once
#include <map>
#include <optional>

#include "infer/grammar/json_schema.h"
#include "infer/grammar/json_text.h"

namespace makar::grammar {

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& root, const Limits& limits) : root_(root), limits_(limits), text_(out_.rules) {}
  Result<SchemaRules> run();

 private:
  static constexpr int64_t kCounted = 2000;  // items and characters that are counted out
  static constexpr int kDeepest = 100;       // schemas inside of schemas, references followed included

  void note(const std::string& path, const std::string& what);
  Error bad(const std::string& path, const std::string& what) const {
    return error_at("schema " + path, "{}", what);
  }

  Result<ExprPtr> compile(const Json& schema, const std::string& path, int depth);
  Result<ExprPtr> reference(const Json& schema, const std::string& path, int depth);
  Result<const Json*> resolve(const std::string& target, const std::string& path);
  Result<ExprPtr> all_of(const Json& schema, const std::string& path, int depth);
  Result<ExprPtr> any_of(const Json& schema, const char* keyword, const std::string& path, int depth);

  Result<ExprPtr> plain(const Json& schema, const std::string& path, int depth);
  void note_unknown(const Json& schema, const std::string& path);
  Result<ExprPtr> typed(const std::string& type, const Json& schema, const std::string& path, int depth);
  Result<ExprPtr> string(const Json& schema, const std::string& path);
  Result<ExprPtr> number(bool whole, const Json& schema, const std::string& path);

  Result<std::optional<int64_t>> count(const Json& schema, const char* keyword, const std::string& path);
  Result<ExprPtr> array(const Json& schema, const std::string& path, int depth);
  Result<ExprPtr> object(const Json& schema, const std::string& path, int depth);
  ExprPtr as_rule(std::string name, ExprPtr body);

  const Json kAny = true, kNone = Json::array();
  const Json& root_;
  const Limits& limits_;
  SchemaRules out_;
  JsonText text_;
  std::map<std::string, int> references_;
  size_t work_ = 0;
};

}  // namespace makar::grammar
