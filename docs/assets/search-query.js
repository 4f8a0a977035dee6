/* Search for "--reload" as for "reload": the search would take the dashes for operators and find nothing. */
"use strict";
(() => {
  const QUERY = 2; // type of the message that carries the text of the search box
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...more) {
    if (message?.type === QUERY && typeof message.data === "string") {
      message = { ...message, data: message.data.replace(/(^|\s)--+/g, "$1") };
    }
    return post.call(this, message, ...more);
  };
})();
