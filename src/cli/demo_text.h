// The training text of `makar demo`: verses written for it.
#pragma once

namespace makar {

inline constexpr const char* kDemoText = R"(The maker sat beside the sea
and wrote a word, and wrote it three.
The first was slow, the next was bright,
the third word wandered through the night.

The maker rose before the sun
and asked the words what they had done.
The first had learned the way to walk,
the next had learned the way to talk,
the third had gone to count the rain
and came with numbers home again.

A word alone is like a stone,
a cold and quiet thing, alone.
But put a word beside a word
and there is something to be heard,
and put a line beside a line
and both the lines begin to shine.

The maker taught the words to sing,
the winter words, the words of spring,
the words for bread, the words for snow,
the words for where the rivers go.
And every day the song was long,
and every day a little less was wrong.

The sea came in, the sea went out,
the maker walked the words about.
The tide took one, the wind took two,
the maker wrote the verses new.
A song is never lost, they say,
that has been sung for half a day.

So sit beside the sea with me
and write a word, and write it three.
The first be slow, the next be bright,
and let the third go through the night.
)";

}  // namespace makar
