// Expressions, in order of Jinja2's precedence, lowest first.
#include "text/template/parser.h"

namespace makar::jinja {

Expression* Parser::make(Type type, const Token& at, std::vector<Expression*> children) {
  if (program_.expressions.size() >= static_cast<size_t>(limits_.max_nodes))
    throw Failure(Error::Kind::kLimit,
                  fmt::format("the template has more than {} expressions", limits_.max_nodes), at.line,
                  at.column);
  Expression& node = program_.expressions.emplace_back();
  node.type = type, node.line = at.line, node.column = at.column;
  node.children = std::move(children);
  return with_depth(&node);
}

// Limits tree depth: chains like a + b + c do not nest in the source, but their left-deep tree is evaluated
// recursively.
Expression* Parser::with_depth(Expression* node) {
  const auto include_child = [&](const Expression* child) {
    if (child) node->depth = std::max(node->depth, child->depth + 1);
  };
  for (const Expression* child : node->children) include_child(child);
  for (const auto& [name, child] : node->keywords) include_child(child);
  include_child(node->star), include_child(node->double_star);
  if (node->depth > limits_.max_nesting * 3)
    throw Failure(Error::Kind::kLimit, "the expression is too deep", node->line, node->column);
  return node;
}

bool Parser::skip_name(std::string_view name) { return peek().is_name(name) ? (next(), true) : false; }
bool Parser::skip_operator(std::string_view op) { return peek().is_operator(op) ? (next(), true) : false; }

void Parser::expect_operator(std::string_view op) {
  if (!skip_operator(op)) fail_at(peek(), fmt::format("expected '{}', found {}", op, describe(peek())));
}

std::string Parser::expect_name(const char* what) {
  if (peek().type != Token::Type::kName)
    fail_at(peek(), fmt::format("expected {}, found {}", what, describe(peek())));
  return next().text;
}

Expression* Parser::parse_expression(bool with_if) {
  const Level level(*this);
  return with_if ? parse_if_expression() : parse_or();
}

Expression* Parser::parse_if_expression() {
  Expression* value = parse_or();
  while (peek().is_name("if")) {
    const Token at = next();
    Expression* condition = parse_or();
    Expression* otherwise = nullptr;
    if (skip_name("else")) {
      const Level level(*this);
      otherwise = parse_if_expression();
    }
    value = make(Type::kIf, at, {value, condition, otherwise});
  }
  return value;
}

Expression* Parser::parse_or() {
  Expression* left = parse_and();
  while (peek().is_name("or")) {
    const Token at = next();
    left = make(Type::kOr, at, {left, parse_and()});
  }
  return left;
}

Expression* Parser::parse_and() {
  Expression* left = parse_not();
  while (peek().is_name("and")) {
    const Token at = next();
    left = make(Type::kAnd, at, {left, parse_not()});
  }
  return left;
}

Expression* Parser::parse_not() {
  if (!peek().is_name("not")) return parse_compare();
  const Level level(*this);
  const Token at = next();
  return make(Type::kNot, at, {parse_not()});
}

Expression* Parser::parse_compare() {
  const Token at = peek();
  std::vector<Expression*> children = {parse_sum()};
  std::vector<std::string> ops;
  while (true) {
    const Token& token = peek();
    static constexpr std::string_view kOps[] = {"==", "!=", "<", "<=", ">", ">="};
    if (token.type == Token::Type::kOperator &&
        std::find(std::begin(kOps), std::end(kOps), token.text) != std::end(kOps)) {
      ops.push_back(next().text);
    } else if (token.is_name("in")) {
      ops.push_back(next().text);
    } else if (token.is_name("not") && peek(1).is_name("in")) {
      next(), next();
      ops.emplace_back("not in");
    } else {
      break;
    }
    children.push_back(parse_sum());
  }
  if (ops.empty()) return children[0];
  Expression* node = make(Type::kCompare, at, std::move(children));
  node->ops = std::move(ops);
  return node;
}

Expression* Parser::parse_sum() {
  Expression* left = parse_concat();
  while (peek().is_operator("+") || peek().is_operator("-")) {
    const Token at = next();
    left = make(Type::kArithmetic, at, {left, parse_concat()});
    left->name = at.text;
  }
  return left;
}

Expression* Parser::parse_concat() {
  const Token at = peek();
  std::vector<Expression*> parts = {parse_product()};
  while (skip_operator("~")) parts.push_back(parse_product());
  return parts.size() == 1 ? parts[0] : make(Type::kConcat, at, std::move(parts));
}

Expression* Parser::parse_product() {
  Expression* left = parse_power();
  while (peek().is_operator("*") || peek().is_operator("/") || peek().is_operator("//") ||
         peek().is_operator("%")) {
    const Token at = next();
    left = make(Type::kArithmetic, at, {left, parse_power()});
    left->name = at.text;
  }
  return left;
}

Expression* Parser::parse_power() {
  Expression* left = parse_unary();
  while (peek().is_operator("**")) {
    const Token at = next();
    left = make(Type::kArithmetic, at, {left, parse_unary()});
    left->name = at.text;
  }
  return left;
}

Expression* Parser::parse_unary(bool with_filter) {
  const Level level(*this);
  Expression* node;
  if (peek().is_operator("-") || peek().is_operator("+")) {
    const Token at = next();
    node = make(at.text == "-" ? Type::kNegative : Type::kPositive, at, {parse_unary(false)});
  } else {
    node = parse_primary();
  }
  node = parse_postfix(node);
  return with_filter ? parse_filters(node) : node;
}

Expression* Parser::parse_primary() {
  const Token token = peek();
  Expression* node;
  Value value;
  switch (token.type) {
    case Token::Type::kName:
      next();
      if (token.text == "true" || token.text == "True")
        value = Value::boolean(true);
      else if (token.text == "false" || token.text == "False")
        value = Value::boolean(false);
      else if (token.text == "none" || token.text == "None")
        value = Value::none();
      else {
        node = make(Type::kName, token);
        node->name = token.text;
        return node;
      }
      break;
    case Token::Type::kString: {
      std::string text;
      while (peek().type == Token::Type::kString) text += next().text;
      value = Value(Kind::kString, std::make_shared<StringObject>(Traced(std::move(text))));
      break;
    }
    case Token::Type::kInt:
      value = Value::integer(next().integer);
      break;
    case Token::Type::kFloat:
      value = Value::real(next().real);
      break;
    default:
      if (skip_operator("(")) {
        node = parse_tuple(true, true);
        expect_operator(")");
        return node;
      }
      if (skip_operator("[")) {
        node = make(Type::kList, token);
        while (!peek().is_operator("]")) {
          node->children.push_back(parse_expression());
          if (!skip_operator(",")) break;
        }
        expect_operator("]");
        return with_depth(node);
      }
      if (peek().is_operator("{")) return parse_dict();
      fail_at(token, fmt::format("expected a value, found {}", describe(token)));
  }
  node = make(Type::kConstant, token);
  node->value = std::move(value);
  return node;
}

bool Parser::at_tuple_end() const {
  const Token& t = peek();
  return t.type == Token::Type::kPrintEnd || t.type == Token::Type::kBlockEnd || t.is_operator(")");
}

// One expression, or a tuple if a comma follows.
Expression* Parser::parse_tuple(bool with_if, bool parentheses) {
  const Token at = peek();
  std::vector<Expression*> items;
  bool tuple = false;
  while (!at_tuple_end()) {
    items.push_back(parse_expression(with_if));
    if (!skip_operator(",")) break;
    tuple = true;
  }
  if (!tuple && !items.empty()) return items[0];
  if (!tuple && !parentheses) fail_at(at, fmt::format("expected an expression, found {}", describe(at)));
  return make(Type::kTuple, at, std::move(items));
}

Expression* Parser::parse_dict() {
  Expression* node = make(Type::kDict, peek());
  expect_operator("{");
  while (!peek().is_operator("}")) {
    node->children.push_back(parse_expression());
    expect_operator(":");
    node->children.push_back(parse_expression());
    if (!skip_operator(",")) break;
  }
  expect_operator("}");
  return with_depth(node);
}

Expression* Parser::parse_postfix(Expression* node) {
  while (true) {
    const Token at = peek();
    if (at.is_operator(".") || at.is_operator("[")) {
      node = parse_subscript(node);
    } else if (at.is_operator("(")) {
      node = make(Type::kCall, at, {node});
      parse_arguments(node);
    } else {
      return node;
    }
  }
}

Expression* Parser::parse_subscript(Expression* node) {
  const Token at = next();
  if (at.text == ".") {
    if (peek().type == Token::Type::kInt) {
      Expression* index = make(Type::kConstant, peek());
      index->value = Value::integer(next().integer);
      return make(Type::kItem, at, {node, index});
    }
    node = make(Type::kAttribute, at, {node});
    node->name = expect_name("the name of an attribute");
    return node;
  }
  Expression* parts[3] = {nullptr, nullptr, nullptr};
  int part = 0;
  while (!peek().is_operator("]")) {
    if (skip_operator(":")) {
      if (++part > 2) fail_at(at, "a slice has at most start, stop and step");
    } else if (parts[part]) {
      fail_at(peek(), fmt::format("expected ']', found {}", describe(peek())));
    } else {
      parts[part] = parse_expression();
    }
  }
  expect_operator("]");
  if (part > 0) return make(Type::kSlice, at, {node, parts[0], parts[1], parts[2]});
  if (!parts[0]) fail_at(at, "an index is missing between [ and ]");
  return make(Type::kItem, at, {node, parts[0]});
}

Expression* Parser::parse_filters(Expression* node) {
  while (true) {
    const Token at = peek();
    if (skip_operator("|")) {
      node = parse_filter(node);
    } else if (at.is_name("is")) {
      node = parse_test(node);
    } else if (at.is_operator("(")) {
      node = make(Type::kCall, at, {node});
      parse_arguments(node);
    } else {
      return node;
    }
  }
}

Expression* Parser::parse_filter(Expression* input) {
  Expression* node = make(Type::kFilter, peek(), {input});
  node->name = expect_name("the name of a filter");
  if (peek().is_operator("(")) parse_arguments(node);
  return node;
}

Expression* Parser::parse_test(Expression* node) {
  const Token at = next();
  const bool negated = skip_name("not");
  Expression* test = make(Type::kTest, at, {node});
  test->name = expect_name("the name of a test");
  const Token& token = peek();
  const bool starts_value = token.type == Token::Type::kName || token.type == Token::Type::kString ||
                            token.type == Token::Type::kInt || token.type == Token::Type::kFloat ||
                            token.is_operator("[") || token.is_operator("{");
  if (token.is_operator("(")) {
    parse_arguments(test);
  } else if (starts_value && !token.is_name("else") && !token.is_name("or") && !token.is_name("and") &&
             !token.is_name("if")) {
    if (token.is_name("is")) fail_at(token, "tests with 'is' cannot be chained");
    test->children.push_back(parse_postfix(parse_primary()));
    with_depth(test);
  }
  return negated ? make(Type::kNot, at, {test}) : test;
}

void Parser::parse_arguments(Expression* call) {
  expect_operator("(");
  while (!peek().is_operator(")")) {
    const Token at = peek();
    if (skip_operator("**")) {
      call->double_star = parse_expression();
    } else if (skip_operator("*")) {
      call->star = parse_expression();
    } else if (at.type == Token::Type::kName && peek(1).is_operator("=")) {
      next(), next();
      call->keywords.emplace_back(at.text, parse_expression());
    } else {
      if (!call->keywords.empty()) fail_at(at, "a positional argument follows a named one");
      call->children.push_back(parse_expression());
    }
    if (!skip_operator(",")) break;
  }
  expect_operator(")");
  with_depth(call);
}

}  // namespace makar::jinja
