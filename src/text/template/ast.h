// The syntax tree of a template. All nodes are in one arena (Program), so a tree of any shape is freed
// without recursion.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "text/template/value.h"

namespace makar::jinja {

struct Expression {
  enum class Type {
    kConstant,  // value
    kName,      // name
    kList,
    kTuple,
    kDict,       // children: key, value, key, value...
    kAttribute,  // children[0].name
    kItem,       // children[0][children[1]]
    kSlice,      // children: object, start, stop, step (null where absent)
    kCall,       // children[0](children[1..], keywords)
    kFilter,     // name(children[0], children[1..], keywords)
    kTest,       // children[0] is name(children[1..])
    kNot,
    kNegative,
    kPositive,
    kAnd,
    kOr,
    kCompare,     // children[0] ops[0] children[1] ops[1] children[2]...
    kArithmetic,  // name is the operator
    kConcat,      // children joined as text
    kIf,          // children: value, condition, otherwise (null where absent)
  };
  Type type;
  int line = 0, column = 0;
  int depth = 1;
  std::string name;
  Value value;
  std::vector<Expression*> children;
  std::vector<std::pair<std::string, Expression*>> keywords;
  std::vector<std::string> ops;
  Expression* star = nullptr;         // f(*star)
  Expression* double_star = nullptr;  // f(**double_star)
};

struct Statement {
  enum class Type {
    kText,
    kPrint,
    kFor,
    kIf,
    kSet,
    kSetBlock,
    kMacro,
    kCallBlock,
    kFilterBlock,
    kWith,
    kGeneration,
    kBreak,
    kContinue
  };
  Type type;
  int line = 0, column = 0;
  std::string text;  // of kText; the name of a macro
  std::vector<std::string>
      targets;  // names bound by for and set ("ns.x" for a namespace attribute), or parameters
  std::vector<Expression*>
      values;  // parameter defaults (of the last parameters), values of with, or the filter chain
  Expression* expression = nullptr;  // printed, iterated, tested or assigned
  Expression* condition = nullptr;   // of for ... if
  std::vector<Statement*> body, otherwise;
  std::vector<std::pair<Expression*, std::vector<Statement*>>> branches;  // of if and elif
};

struct Program {
  std::deque<Expression> expressions;
  std::deque<Statement> statements;
  std::vector<Statement*> body;
  bool has_generation = false;
};

}  // namespace makar::jinja
