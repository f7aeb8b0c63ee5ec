// Parses tokens into a syntax tree: Jinja2's grammar, by recursive descent with a limit on nesting.
#pragma once
#include <memory>
#include <string_view>

#include "base/stack_guard.h"
#include "text/template/ast.h"
#include "text/template/lexer.h"

namespace makar::jinja {

// Throws Failure with line and column.
std::unique_ptr<const Program> parse_template(std::string_view source, const Limits& limits);

class Parser {
 public:
  Parser(std::deque<Token> tokens, const Limits& limits, Program& program)
      : tokens_(std::move(tokens)), limits_(limits), stack_(limits.max_stack_bytes), program_(program) {}
  void parse_program();

 private:
  using Type = Expression::Type;

  // parse_expression.cpp
  Expression* parse_expression(bool with_if = true);
  Expression* parse_if_expression();
  Expression* parse_or();
  Expression* parse_and();
  Expression* parse_not();
  Expression* parse_compare();
  Expression* parse_sum();
  Expression* parse_concat();
  Expression* parse_product();
  Expression* parse_power();
  Expression* parse_unary(bool with_filter = true);
  Expression* parse_primary();
  Expression* parse_tuple(bool with_if, bool parentheses);
  Expression* parse_dict();
  Expression* parse_postfix(Expression* node);
  Expression* parse_subscript(Expression* node);
  Expression* parse_filters(Expression* node);
  Expression* parse_filter(Expression* input);
  Expression* parse_test(Expression* node);
  void parse_arguments(Expression* call);
  bool at_tuple_end() const;

  // parse_statement.cpp
  std::vector<Statement*> parse_body(std::initializer_list<const char*> ends);
  Statement* parse_statement();
  Statement* parse_for();
  Statement* parse_if();
  Statement* parse_set();
  Statement* parse_macro();
  Statement* parse_call_block();
  Statement* parse_with();
  Statement* parse_filter_block();
  void parse_parameters(Statement* s);
  std::vector<std::string> parse_targets(bool attributes);
  void end_block();  // skips the name of the end tag and %}

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view op);
  void expect_operator(std::string_view op);
  std::string expect_name(const char* what);
  void expect_block_end();
  [[noreturn]] void fail_at(const Token& token, const std::string& why) const {
    throw Failure(Error::Kind::kInvalid, why, token.line, token.column);
  }
  Expression* make(Type type, const Token& at, std::vector<Expression*> children = {});
  Expression* with_depth(Expression* node);  // computes the depth and checks it
  Statement* make(Statement::Type type, const Token& at);

  // Tracks the nesting depth of the source while parsing.
  struct Level {
    explicit Level(Parser& p) : parser(p) {
      if (++parser.level_ > parser.limits_.max_nesting || parser.stack_.exceeded())
        throw Failure(Error::Kind::kLimit,
                      fmt::format("the template nests deeper than {} levels", parser.limits_.max_nesting),
                      parser.peek().line, parser.peek().column);
    }
    ~Level() { --parser.level_; }
    Parser& parser;
  };

  std::deque<Token> tokens_;
  const Limits& limits_;
  const StackGuard stack_;
  Program& program_;
  size_t at_ = 0;
  int level_ = 0, loops_ = 0;
};

}  // namespace makar::jinja
